//! Recovery from losses: in a number of time-outs that does not grow with what was lost, at any phase of a link that flaps, and
//! with time-outs that follow the network.

use crate::common;
use crate::common::fabrics::*;

use common::setup_on;
use unrack_protocol::{fastpass, homa, ndp};
use unrack_rack::Protocol;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::Pace;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Run, Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

const MS: Time = Time::from_us(1_000);

fn link(gbps: u64, us: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_us(us) }
}

fn down(what: BrokenPart, from: Time, until: Time, every: Option<Time>) -> Downtime {
    Downtime { what, from, until, every, detected_after: None }
}

fn failing(topology: Topology, protocol: Protocol, failures: &[Downtime], errors: f64) -> Setup {
    let rates = ErrorRates { host: errors, core: errors };
    let faults = FaultSchedule::new(&topology, failures, rates, 1).unwrap();
    setup_on(topology.with_faults(faults), protocol, 2 << 20)
}

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
    assert!(run.is_complete(), "{:?}: {:?}, {:?}", setup.fabric, run.ending, run.outcomes[0]);
    run
}

fn one(setup: &Setup, bytes: u64) -> (Time, f64) {
    let run = run(setup, vec![(Time::ZERO, Message::flow(0, setup.network.nodes() - 1, bytes))]);
    (run.outcomes[0].completion().unwrap(), run.slowdown(0).unwrap())
}

/// A lost packet causes no pull: if it came back only with one, each loss would shrink the window for good.
#[test]
fn ndp_regains_its_window_after_an_outage_and_under_bit_errors() {
    let star = || Topology::star(2, link(100, 1));
    let outage = down(BrokenPart::Node(1), MS, MS + Time::from_us(100), None);
    for rto in [None, Some(MS)] {
        let with = |failures: &[Downtime], errors| {
            let mut setup = failing(star(), Ndp::PROTOCOL, failures, errors);
            common::change::<Ndp>(&mut setup.fabric, |params: &mut ndp::Params| params.rto = rto);
            setup
        };
        let (blip, _) = one(&with(&[outage], 0.0), 50_000_000);
        assert!(blip < MS * 6, "an outage of 0.1 ms: {blip} instead of 4.3 ms");
        let (errors, _) = one(&with(&[], 1e-8), 100_000_000);
        assert!(errors < MS * 11, "bit errors: {errors} instead of 8.5 ms");
    }
}

#[test]
fn ndp_regains_its_window_after_a_spine_was_down() {
    let racks = Topology::leaf_spine(4, 4, 4, link(100, 1), link(100, 1));
    let dead = Downtime {
        detected_after: Some(Time::from_us(500)),
        ..down(BrokenPart::Switch(5), Time::from_us(100), Time::MAX, None)
    };
    let setup = failing(racks, Ndp::PROTOCOL, &[dead], 0.0);
    let flows = (0..8).map(|src| (Time::ZERO, Message::flow(src, src + 8, 5_000_000))).collect();
    let run = run(&setup, flows);
    let last = run.outcomes.iter().filter_map(|outcome| outcome.completed()).max().unwrap();
    // Alone 0.45 ms; three of four spines carry 12 of the 8 links' 16.
    assert!(last < MS * 3, "{last}");
}

/// Packets take all spines in turn, so that every fourth is lost: each a gap.
#[test]
fn fastpass_fills_all_gaps_at_once() {
    for timeout in [None, Some(MS)] {
        let racks = Topology::leaf_spine(2, 2, 4, link(100, 1), link(400, 1));
        let outage = down(BrokenPart::Switch(2), MS, Time::from_us(1_500), None);
        let mut setup = failing(racks, Fastpass::PROTOCOL, &[outage], 0.0);
        let change = |params: &mut fastpass::Params| params.timeout = timeout;
        common::change::<Fastpass>(&mut setup.fabric, change);
        let (time, _) = one(&setup, 50_000_000);
        assert!(time < MS * 9, "{time} instead of 4.8 ms");
    }
}

/// Returns the fabrics whose ends send again what was lost, each on a network of its kind.
fn recovering() -> Vec<(Protocol, fn() -> Topology)> {
    let star: fn() -> Topology = || Topology::star(2, link(100, 1));
    let others =
        [Edm::PROTOCOL, Cxl::PROTOCOL, Ideal::PROTOCOL, R2c2::PROTOCOL, Pfq::PROTOCOL, Mptcp::PROTOCOL];
    let all = known().protocols.into_iter().filter(|protocol| !others.contains(protocol));
    all.map(|protocol| (protocol, star)).collect()
}

/// Retries at whole multiples of one time would all meet the outages of a link that fails with that period.
#[test]
fn retries_do_not_keep_the_phase_of_a_link_that_flaps() {
    for (protocol, topology) in recovering() {
        let mut setups = vec![failing(topology(), protocol, &[], 0.0)];
        // With the time-outs that their papers have, too.
        let fixed = match protocol {
            Ndp::PROTOCOL => {
                Some(FabricConfig::new::<Ndp>(ndp::Params { rto: Some(MS), ..Default::default() }))
            }
            Homa::PROTOCOL => {
                Some(FabricConfig::new::<Homa>(homa::Params { resend: Some(MS * 2), ..Default::default() }))
            }
            Fastpass::PROTOCOL => {
                let params = fastpass::Params { timeout: Some(MS), ..Default::default() };
                Some(FabricConfig::new::<Fastpass>(params))
            }
            _ => None,
        };
        setups.extend(fixed.map(|fabric| Setup { fabric, ..setups[0].clone() }));
        for (setup, us) in setups.iter().flat_map(|it| [50, 100, 200, 500, 1_000, 2_000].map(|us| (it, us))) {
            let period = Time::from_us(us);
            for part in [10, 2] {
                let length = Time::from_ps(period.as_ps() / part);
                let flap = down(BrokenPart::Node(1), Time::ZERO, length, Some(period));
                let flapping = failing(topology(), protocol, &[flap], 0.0);
                let setup = Setup { network: flapping.network, ..setup.clone() };
                let start = Time::from_ps(length.as_ps() / 5);
                let run = run(&setup, vec![(start, Message::flow(0, 1, 1_000))]);
                let time = run.outcomes[0].completion().unwrap();
                // Three packets of an exchange may each need several tries, whose waits double.
                let most = (period + MS * 2) * 64;
                assert!(time < most, "{:?}, down {length} of {period}: {time}", setup.fabric);
            }
        }
    }
}

/// The same draws on any number of threads, and others with another seed.
#[test]
fn draws_of_retries_follow_the_seed_and_not_the_threads() {
    let topology = || Topology::leaf_spine(2, 2, 2, link(100, 1), link(100, 1));
    let flap = down(BrokenPart::Node(3), Time::ZERO, Time::from_us(50), Some(Time::from_us(100)));
    let messages = || {
        let flow = |n: u64| (Time::from_us(n), Message::flow((n % 3) as u32, 3, 20_000));
        (0..60).map(flow).collect::<Vec<_>>()
    };
    for protocol in splitting() {
        let setup = failing(topology(), protocol, &[flap], 0.0);
        let whole = run(&setup, messages());
        let split = setup.split(&Work::listed(messages()), 2, |_| {}).unwrap().run;
        common::assert_same(&whole, &split);
        let other = run(&Setup { seed: 2, ..setup }, messages());
        let times = |run: &Run| run.outcomes.iter().map(|outcome| outcome.completed()).collect::<Vec<_>>();
        assert!(whole.counters.dropped_packets > 0);
        assert_ne!(times(&whole), times(&other), "{protocol}");
    }
}

/// A packet lost alone on a link of a rack costs some round trips of that rack, and not a millisecond of a larger network.
#[test]
fn time_outs_follow_the_round_trip() {
    for protocol in [Ndp::PROTOCOL, Homa::PROTOCOL, Fastpass::PROTOCOL, Ird::PROTOCOL] {
        let short = Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(10) };
        let lose = |propagation| {
            let blip = down(BrokenPart::Node(1), Time::ZERO, propagation * 2 + Time::from_us(1), None);
            let topology = Topology::star(2, Link { propagation, ..short });
            let mut setup = failing(topology, protocol, &[blip], 0.0);
            setup.ethernet.buffer =
                unrack_sim::site::SwitchBuffer::Private(unrack_units::Bytes::new(36 << 10));
            one(&setup, 1_000).0
        };
        let (near, far) = (lose(Time::from_ns(10)), lose(Time::from_us(20)));
        assert!(near < Time::from_us(60), "{protocol}: {near}");
        assert!(far > Time::from_us(80), "{protocol}: {far}");
    }
}

/// Far more than links carry, of messages of 64 B: what each costs does not grow with how many wait.
#[test]
fn phost_beyond_what_links_carry_does_not_ask_ever_more_often() {
    let per_message = |messages: u64| {
        let topology = Topology::star(16, Link { propagation: Time::from_ns(10), ..link(100, 0) });
        let setup = setup_on(topology, Phost::PROTOCOL, 36 << 10);
        let flow = |n: u64| {
            let (src, ahead) = ((n % 16) as u32, 1 + (n / 16 % 15) as u32);
            (Time::from_ps(n * 350), Message::flow(src, (src + ahead) % 16, 64))
        };
        let run = run(&setup, (0..messages).map(flow).collect());
        let sent: u64 = run.outcomes.iter().map(|outcome| u64::from(outcome.retransmissions)).sum();
        (sent + run.counters.dropped_packets) as f64 / messages as f64
    };
    let (few, many) = (per_message(4_000), per_message(24_000));
    assert!(
        many < 2.0 * few + 2.0,
        "{few:.2} retransmissions and drops of each message, {many:.2} where more wait"
    );
}
