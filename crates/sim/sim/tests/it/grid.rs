//! A grid of settings, for what each protocol promises at all of them (docs/protocols.md).
//!
//! A case is drawn by its number: protocol, topology, rate, length, size, pattern and buffer. It is run at five loads, with
//! a large buffer, and as a synchronized all-to-all. `UNRACK_EXTREMES=all`, which `make soak` sets, draws many; otherwise
//! some are, by `PROPTEST_RNG_SEED`. `UNRACK_GRID=1` prints what was measured.

use crate::common;
use crate::common::fabrics::*;

use common::completion_ps;
use unrack_basis::SplitMix64;
use unrack_rack::{Overrides, Protocol, Scenario};
use unrack_sim::observe::{Journal, TimeSpent, Views, explain};
use unrack_sim::{Run, Setup, Work};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// What a protocol promises, as docs/protocols.md says it.
pub(crate) struct Promise {
    pub(crate) protocol: Protocol,
    topologies: &'static [&'static str],
    /// Buffer of a port from which what is dropped is no excuse, in bandwidth-delay products and in full packets.
    enough: [u64; 2],
    /// Bandwidth-delay product, in bytes, up to which the promises but that of order hold.
    pub(crate) longest: u64,
    /// Least share of the links' capacity that large messages get in a synchronized all-to-all.
    share: f64,
    /// Maximum mean slowdown at half load, of messages of 4 KiB or more.
    mean: f64,
    /// Most of what a larger buffer does to the mean slowdown, as a ratio.
    bloat: f64,
}

/// Ratio by which the mean slowdown may fall when the load rises: runs are short.
const FALLS: f64 = 1.25;
/// Slowdown of a message that lost nothing, at most, in multiples of the 99th percentile.
const LATEST: f64 = 5.0;
/// Buffer that no run fills.
const LARGE: u64 = 4 << 20;

const SWITCHED: &[&str] = &[
    "{ kind = \"star\", nodes = 16 }",
    "{ kind = \"leaf-spine\", racks = 4, hosts_per_rack = 4, spines = 4 }",
    "{ kind = \"fat-tree\", ports = 4 }",
];
const STARS: &[&str] = &["{ kind = \"star\", nodes = 16 }", "{ kind = \"star\", nodes = 5 }"];
const DIRECT: &[&str] = &[
    "{ kind = \"torus\", shape = [4, 4] }",
    "{ kind = \"mesh\", shape = [3, 4] }",
    "{ kind = \"torus\", shape = [3, 3, 3] }",
];
const DRACKS: &[&str] = &["{ kind = \"drack\", racks = 4, hosts_per_rack = 4 }"];

const fn promise(
    protocol: Protocol,
    topologies: &'static [&'static str],
    enough: [u64; 2],
    (share, mean, bloat): (f64, f64, f64),
) -> Promise {
    Promise { protocol, topologies, enough, longest: u64::MAX, share, mean, bloat }
}

const NEVER: [u64; 2] = [1_000_000, 0];
pub(crate) const PROMISES: [Promise; 14] = [
    promise(Edm::PROTOCOL, STARS, [0, 0], (0.5, 10.0, 1.05)),
    // A class has credits for 64 lines: 4 KiB on a link.
    Promise { longest: 12_000, ..promise(Cxl::PROTOCOL, SWITCHED, [0, 0], (0.15, 50.0, 1.05)) },
    promise(Tcp::PROTOCOL, SWITCHED, [8, 60], (0.4, 8.0, 2.0)),
    promise(Dctcp::PROTOCOL, SWITCHED, [8, 60], (0.2, 8.0, 1.5)),
    promise(Mptcp::PROTOCOL, DRACKS, [8, 60], (0.5, 8.0, 2.0)),
    promise(Pfabric::PROTOCOL, SWITCHED, [16, 20], (0.4, 8.0, 1.5)),
    promise(Phost::PROTOCOL, SWITCHED, [16, 20], (0.35, 8.0, 1.5)),
    promise(Homa::PROTOCOL, SWITCHED, [16, 20], (0.35, 8.0, 1.5)),
    promise(Ird::PROTOCOL, SWITCHED, [8, 20], (0.35, 8.0, 1.5)),
    promise(Ndp::PROTOCOL, SWITCHED, [1, 20], (0.3, 8.0, 1.5)),
    promise(Fastpass::PROTOCOL, SWITCHED, [0, 20], (0.6, 10.0, 1.5)),
    promise(PfcDcqcn::PROTOCOL, SWITCHED, [0, 0], (0.15, 50.0, 1.5)),
    promise(R2c2::PROTOCOL, DIRECT, NEVER, (0.2, 100.0, 1.5)),
    promise(Pfq::PROTOCOL, DIRECT, [0, 0], (0.75, 100.0, 1.5)),
];

/// Cases of each protocol in the short form and in the long one.
const CASES: [usize; 2] = [1, 100];
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) protocol: Protocol,
    topology: &'static str,
    pub(crate) gbps: u64,
    propagation_ns: u64,
    size: u64,
    pattern: &'static str,
    pub(crate) buffer: u64,
    seed: u64,
}

/// One run of a case.
struct Watched {
    setup: Setup,
    run: Run,
    journal: Journal,
}

impl Case {
    pub(crate) fn draw(promise: &Promise, random: &mut SplitMix64) -> Case {
        let mut pick = |count: usize| (random.next_u64() % count as u64) as usize;
        let patterns = ["\"all-to-all\"", "\"permutation\"", "{ kind = \"incast\", fan_in = 4 }"];
        Case {
            protocol: promise.protocol,
            topology: promise.topologies[pick(promise.topologies.len())],
            gbps: [1, 10, 40, 100, 400][pick(5)],
            propagation_ns: [10, 100, 1_000, 10_000][pick(4)],
            size: [64, 4_096, 30_000, 100_000][pick(4)],
            pattern: patterns[pick(3)],
            buffer: [8 << 10, 36 << 10, 256 << 10, LARGE][pick(4)],
            seed: pick(1 << 20) as u64,
        }
    }

    /// Returns about the bandwidth-delay product of the longest way, in bytes.
    pub(crate) fn product(&self) -> u64 {
        let links = match self.topology {
            of if of.contains("leaf-spine") => 4,
            of if of.contains("fat-tree") => 6,
            _ => 2,
        };
        links * (2 * self.propagation_ns * self.gbps / 8 + 1_538)
    }

    pub(crate) fn has_enough(&self, promise: &Promise) -> bool {
        self.buffer >= promise.enough[0] * self.product() && self.buffer >= promise.enough[1] * 1_538
    }

    fn setup(&self, buffer: u64, load: f64, more: &str) -> Result<(Setup, Work), String> {
        let Case { protocol, topology, gbps, propagation_ns, size, pattern, seed, .. } = self;
        let link = format!("{{ rate = \"{gbps}Gbps\", propagation = \"{propagation_ns}ns\" }}");
        let core = match topology.contains("leaf-spine") || topology.contains("fat-tree") {
            true => format!("core_link = {link}\n"),
            false => String::new(),
        };
        // Headers take their part of the links, and a line of CXL many events.
        let load = load * *size as f64 / (size + 90 * size.div_ceil(1_460)) as f64;
        let messages = if *protocol == Cxl::PROTOCOL { 100 } else { 400 };
        let text = format!(
            "seed = {seed}\n[network]\ntopology = {topology}\nlink = {link}\n{core}\
             switch = {{ buffer = \"{buffer}B\" }}\n[fabric]\nprotocol = \"{protocol}\"\n\
             [workload]\nkind = \"flows\"\nsize = \"{size}B\"\npattern = {pattern}\nload = {load}\n\
             messages = {messages}\n{more}",
        );
        let parsed =
            Scenario::parse("grid.toml", &text, &Overrides::none()).map_err(|why| why.to_string())?;
        let mut scenario = parsed.check(&known()).map_err(|why| why.to_string())?;
        let setup = Setup::from_scenario(&mut scenario).map_err(|why| why.to_string())?;
        let work = Work::drawn(&scenario).map_err(|why| why.to_string())?.expect("it is drawn");
        Ok((setup, work))
    }

    fn run(&self, buffer: u64, load: f64) -> Result<Watched, String> {
        let (setup, work) = self.setup(buffer, load, "")?;
        let mut watch = Views { journal: Some(Journal::of_all()), ..Views::default() };
        let run = setup.watched(&work, &mut watch, |_| {}).map_err(|why| why.to_string())?.run;
        let journal = watch.journal.take().expect("it was asked for");
        Ok(Watched { setup, run, journal })
    }

    /// Runs the case at this load with what fails, as a scenario says it.
    pub(crate) fn failing(&self, load: f64, failures: &str) -> Result<Run, String> {
        let (setup, work) = self.setup(self.buffer, load, failures)?;
        Ok(setup.run(&work, |_| {}).map_err(|why| why.to_string())?.run)
    }

    /// Returns the share of the links that a synchronized all-to-all takes, and how many packets were dropped.
    fn synchronized(&self) -> Result<(f64, u64), String> {
        let (setup, _) = self.setup(self.buffer, 0.5, "")?;
        let nodes = setup.network.nodes();
        let each = (10 * self.product() / u64::from(nodes - 1)).max(50_000);
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let work = Work::listed(pairs.map(|(a, b)| (Time::ZERO, Message::flow(a, b, each))).collect());
        let run = setup.run(&work, |_| {}).map_err(|why| why.to_string())?.run;
        if !run.is_complete() {
            return Ok((0.0, run.counters.dropped_packets));
        }
        let last = (0..run.messages.len()).map(|n| completion_ps(&run, n)).max().expect("there are messages");
        let bits = (each * u64::from(nodes - 1) * 8) as f64;
        Ok((bits / (self.gbps as f64 * 1e-3 * last as f64), run.counters.dropped_packets))
    }
}

impl Watched {
    fn mean(&self) -> f64 {
        let all = (0..self.run.messages.len()).filter_map(|index| self.run.slowdown(index));
        all.sum::<f64>() / self.run.messages.len() as f64
    }

    /// Returns what is later than [`LATEST`] times the 99th percentile without having waited for something lost.
    fn late(&self) -> Vec<String> {
        let mut all: Vec<(f64, usize)> =
            (0..self.run.messages.len()).filter_map(|n| Some((self.run.slowdown(n)?, n))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let limit = LATEST * all[(all.len() * 99).div_ceil(100) - 1].0;
        let late = all.iter().filter(|(slowdown, _)| *slowdown > limit);
        late.filter_map(|(slowdown, index)| {
            let why = explain(&self.journal, &self.setup.network, MessageId(*index as u32))?;
            let lost: Time =
                why.parts.iter().filter(|it| it.place == TimeSpent::Lost).map(|it| it.time).sum();
            let named = lost * 2 >= why.completed - why.submitted;
            (!named).then(|| format!("message {index}: {slowdown:.1}, {:?}", why.sums()))
        })
        .collect()
    }
}

/// Returns what a case breaks of the promises. Settings that the fabric refuses break none.
fn broken(case: &Case, promise: &Promise) -> Vec<String> {
    let mut broken = Vec::new();
    if case
        .setup(case.buffer, 0.5, "")
        .and_then(|(setup, _)| {
            setup
                .run(&Work::listed(vec![(Time::ZERO, Message::flow(0, 1, 64))]), |_| {})
                .map_err(|why| why.to_string())
        })
        .is_err()
    {
        return broken;
    }
    let mut means = Vec::new();
    let mut dropped = 0;
    for load in LOADS {
        let watched = case.run(case.buffer, load).unwrap();
        if !watched.run.is_complete() {
            broken.push(format!("at {load}: {:?}", watched.run.ending));
            return broken;
        }
        broken.extend(watched.late());
        means.push(watched.mean());
        dropped += watched.run.counters.dropped_packets;
    }
    let is_long = case.product() > promise.longest;
    let is_excused = |dropped: u64| is_long || dropped > 0 && !case.has_enough(promise);
    if !is_excused(dropped) && means.windows(2).any(|pair| pair[0] > FALLS * pair[1]) {
        broken.push(format!("means at rising loads: {means:.2?}"));
    }
    if !is_excused(dropped) && case.size >= 4_096 && means[2] > promise.mean {
        broken.push(format!("mean at half load: {means:.2?}"));
    }
    let large = case.run(LARGE, 0.5).unwrap().mean();
    if !is_excused(dropped) && large > promise.bloat * means[2] {
        broken.push(format!("mean with a large buffer: {large:.2} instead of {:.2}", means[2]));
    }
    let (share, lost) = case.synchronized().unwrap();
    if !is_excused(lost) && share < promise.share {
        broken.push(format!("synchronized: {share:.3} of the links"));
    }
    if std::env::var_os("UNRACK_GRID").is_some() {
        println!(
            "{case:?}: means {means:.2?}, {large:.2} with a large buffer, {dropped} dropped; synchronized {share:.3}, {lost} dropped"
        );
    }
    broken
}

#[test]
fn no_protocol_breaks_its_promises_anywhere_in_a_grid() {
    let all = std::env::var("UNRACK_EXTREMES").is_ok_and(|value| value == "all");
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = SplitMix64::new(seed);
    let mut wrong = Vec::new();
    for promise in &PROMISES {
        for _ in 0..CASES[usize::from(all)] {
            let case = Case::draw(promise, &mut random);
            wrong.extend(broken(&case, promise).into_iter().map(|why| format!("{case:?}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "PROPTEST_RNG_SEED={seed}\n{}", wrong.join("\n"));
}
