//! The grid of [`super::grid`] with failures: outages, links that flap, and bit errors, for every protocol that recovers.
//!
//! A case is drawn as there, and run without failures and with each kind. Its promise (docs/protocols.md): every message
//! arrives, and the mean completion time and that of the last message are at most [`MULTIPLE`] times what they are without
//! failures, with the time-out and the outage added. `UNRACK_EXTREMES=all`, which `make soak` sets, draws many cases;
//! `UNRACK_GRID=1` prints what was measured.

use crate::common::fabrics::*;
use crate::grid::{Case, PROMISES, Promise};

use unrack_basis::SplitMix64;
use unrack_rack::Protocol;
use unrack_sim::Run;
use unrack_units::Time;

/// Maximum number of times that a run with failures takes of one without, where the time-out and the outage are added to the latter.
const MULTIPLE: f64 = 3.0;
/// Time-outs and outages that the last message may wait for one after the other.
const IN_A_ROW: u64 = 10;

/// Cases of each protocol in the short form and in the long one.
const CASES: [usize; 2] = [1, 30];

/// What fails.
#[derive(Debug, Clone, Copy)]
struct Failing {
    text: &'static str,
    /// Length of an outage, or the period of a link that flaps.
    length: Time,
}

const fn outage(text: &'static str, us: u64) -> Failing {
    Failing { text, length: Time::from_us(us) }
}

const fn errors(text: &'static str) -> Failing {
    Failing { text, length: Time::ZERO }
}

const OUTAGES: [Failing; 3] = [
    outage("[[failures]]\nnode = 1\nfrom = \"5us\"\nuntil = \"10us\"\n", 5),
    outage("[[failures]]\nnode = 1\nfrom = \"20us\"\nuntil = \"120us\"\n", 100),
    outage("[[failures]]\nnode = 1\nfrom = \"0us\"\nuntil = \"2ms\"\n", 2_000),
];
const FLAPS: [Failing; 4] = [
    outage("[[failures]]\nnode = 1\nfrom = \"0us\"\nuntil = \"10us\"\nevery = \"100us\"\n", 100),
    outage("[[failures]]\nnode = 1\nfrom = \"0us\"\nuntil = \"50us\"\nevery = \"200us\"\n", 200),
    outage("[[failures]]\nnode = 1\nfrom = \"0us\"\nuntil = \"100us\"\nevery = \"1ms\"\n", 1_000),
    outage("[[failures]]\nnode = 1\nfrom = \"10us\"\nuntil = \"500us\"\nevery = \"2ms\"\n", 2_000),
];
const ERRORS: [Failing; 5] = [
    errors("[bit_errors]\nlink = 1e-10\ncore_link = 1e-10\n"),
    errors("[bit_errors]\nlink = 1e-9\ncore_link = 1e-9\n"),
    errors("[bit_errors]\nlink = 1e-8\ncore_link = 1e-8\n"),
    errors("[bit_errors]\nlink = 1e-7\ncore_link = 1e-7\n"),
    errors("[bit_errors]\nlink = 1e-6\ncore_link = 1e-6\n"),
];

/// Returns whether a protocol sends again what was lost.
fn recovers(protocol: Protocol) -> bool {
    // EDM reports what is lost (§3.3); a network that fails is refused by `pfq`.
    ![Edm::PROTOCOL, Pfq::PROTOCOL].contains(&protocol)
}

/// Least time-out of a protocol, whatever the network.
fn least_timeout(protocol: Protocol) -> Time {
    match protocol {
        Tcp::PROTOCOL | Dctcp::PROTOCOL | Mptcp::PROTOCOL => Time::from_us(200),
        PfcDcqcn::PROTOCOL => Time::from_us(500),
        R2c2::PROTOCOL => Time::from_us(1_000),
        _ => Time::ZERO,
    }
}

/// Returns the time-out that a protocol has on the network of a case, or more: that of the longest way.
fn timeout(case: &Case) -> Time {
    let time_of = |bytes: u64| Time::from_ns(bytes * 8 / case.gbps);
    let queue = time_of(case.buffer.min(16 * case.product()));
    time_of(case.product()) * 6 + queue * 7 + least_timeout(case.protocol)
}

fn mean_and_last(run: &Run) -> (Time, Time) {
    let times = run.outcomes.iter().filter_map(|outcome| outcome.completion());
    let sum: u64 = times.map(Time::as_ps).sum();
    let last = run.outcomes.iter().filter_map(|outcome| outcome.completed()).max().unwrap_or(Time::ZERO);
    (Time::from_ps(sum / run.messages.len() as u64), last)
}

/// Returns what a case breaks of the promise under this failure.
fn broken(case: &Case, promise: &Promise, load: f64, clean: &Run, failing: Failing) -> Option<String> {
    let run = match case.failing(load, failing.text) {
        Ok(run) => run,
        Err(why) => return Some(why),
    };
    if !run.is_complete() {
        return Some(format!("{} of {}: {:?}", run.finished(), run.messages.len(), run.ending));
    }
    let ((mean, last), (clean_mean, clean_last)) = (mean_and_last(&run), mean_and_last(clean));
    let added = timeout(case) + failing.length;
    let ratio = |time: Time, of: Time| time.as_ps() as f64 / of.as_ps() as f64;
    let (mean_ratio, last_ratio) =
        (ratio(mean, clean_mean + added), ratio(last, clean_last + added * IN_A_ROW));
    if std::env::var_os("UNRACK_GRID").is_some() {
        println!("{case:?} at {load}, {:?}: {mean_ratio:.2}, {last_ratio:.2}", failing.text);
    }
    let is_excused = case.product() > promise.longest || !case.has_enough(promise);
    let is_late = !is_excused && (mean_ratio > MULTIPLE || last_ratio > MULTIPLE);
    is_late.then(|| {
        format!(
            "mean {mean} instead of {clean_mean} and {added}: {mean_ratio:.2}; last {last} instead of {clean_last}: {last_ratio:.2}"
        )
    })
}

#[test]
fn every_protocol_recovers_from_failures_anywhere_in_the_grid() {
    let all = std::env::var("UNRACK_EXTREMES").is_ok_and(|value| value == "all");
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = SplitMix64::new(seed);
    let mut wrong = Vec::new();
    for promise in PROMISES.iter().filter(|promise| recovers(promise.protocol)) {
        for _ in 0..CASES[usize::from(all)] {
            let case = Case::draw(promise, &mut random);
            let mut pick = |count: usize| (random.next_u64() % count as u64) as usize;
            let load = [0.2, 0.5, 0.7][pick(3)];
            let failures = [OUTAGES[pick(3)], FLAPS[pick(4)], ERRORS[pick(5)]];
            let Ok(clean) = case.failing(load, "") else { continue };
            let found = failures.iter().filter_map(|failing| {
                let why = broken(&case, promise, load, &clean, *failing)?;
                Some(format!("{case:?} at {load}, {:?}: {why}", failing.text))
            });
            wrong.extend(found);
        }
    }
    assert!(wrong.is_empty(), "PROPTEST_RNG_SEED={seed}\n{}", wrong.join("\n"));
}
