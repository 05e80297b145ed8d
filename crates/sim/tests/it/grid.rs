//! A grid of settings, for what each protocol promises at all of them (docs/protocols.md).
//!
//! A case is drawn by its number: protocol, topology, rate, length, size, pattern and buffer. It is run at five loads, and
//! as a synchronized all-to-all. `UNRACK_EXTREMES=all`, which `make soak` sets, draws many; otherwise some are, by
//! `PROPTEST_RNG_SEED`. `UNRACK_GRID=1` prints what was measured.

use crate::common;
use crate::common::fabrics::*;

use common::completion_ps;
use unrack_basis::SplitMix64;
use unrack_rack::{Overrides, Protocol, Scenario};
use unrack_sim::observe::{Journal, TimeSpent, Watch, explain};
use unrack_sim::{Run, Setup, Work};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// What a protocol promises, as docs/protocols.md says it.
struct Promise {
    protocol: Protocol,
    topologies: &'static [&'static str],
    /// Least buffer of a port, in bandwidth-delay products and in full packets, from which the promises hold.
    least: [u64; 2],
    /// Least share of the links' capacity that large messages get in a synchronized all-to-all.
    share: f64,
    /// Most by which the mean slowdown falls when the load rises, or rises with a larger buffer, as a ratio.
    most: f64,
    /// Most slowdown of a message that lost no packet, in multiples of the 99th percentile.
    latest: f64,
}

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

const fn promise(protocol: Protocol, topologies: &'static [&'static str]) -> Promise {
    Promise { protocol, topologies, least: [0, 0], share: 0.5, most: 1.25, latest: 10.0 }
}

const PROMISES: [Promise; 14] = [
    promise(Edm::PROTOCOL, STARS),
    promise(Cxl::PROTOCOL, SWITCHED),
    promise(Tcp::PROTOCOL, SWITCHED),
    promise(Dctcp::PROTOCOL, SWITCHED),
    promise(Mptcp::PROTOCOL, DRACKS),
    promise(Pfabric::PROTOCOL, SWITCHED),
    promise(Phost::PROTOCOL, SWITCHED),
    promise(Homa::PROTOCOL, SWITCHED),
    promise(Ird::PROTOCOL, SWITCHED),
    promise(Ndp::PROTOCOL, SWITCHED),
    promise(Fastpass::PROTOCOL, SWITCHED),
    promise(PfcDcqcn::PROTOCOL, SWITCHED),
    promise(R2c2::PROTOCOL, DIRECT),
    promise(Pfq::PROTOCOL, DIRECT),
];

/// Cases of each protocol in the short form and in the long one.
const CASES: [usize; 2] = [2, 200];
const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
const MESSAGES: usize = 400;

#[derive(Debug, Clone, Copy)]
struct Case {
    protocol: Protocol,
    topology: &'static str,
    gbps: u64,
    propagation_ns: u64,
    size: u64,
    pattern: &'static str,
    buffer: u64,
    seed: u64,
}

impl Case {
    fn draw(promise: &Promise, random: &mut SplitMix64) -> Case {
        let mut pick = |count: usize| (random.next_u64() % count as u64) as usize;
        let patterns = ["\"all-to-all\"", "\"permutation\"", "{ kind = \"incast\", fan_in = 4 }"];
        Case {
            protocol: promise.protocol,
            topology: promise.topologies[pick(promise.topologies.len())],
            gbps: [1, 10, 40, 100, 400][pick(5)],
            propagation_ns: [10, 100, 1_000, 10_000][pick(4)],
            size: [64, 4_096, 30_000, 100_000][pick(4)],
            pattern: patterns[pick(3)],
            buffer: [8 << 10, 36 << 10, 256 << 10, 4 << 20][pick(4)],
            seed: pick(1 << 20) as u64,
        }
    }

    /// Returns the bandwidth-delay product of the longest way, in bytes.
    fn bdp(&self) -> u64 {
        let links = match self.topology {
            of if of.contains("leaf-spine") => 4,
            of if of.contains("fat-tree") => 6,
            _ => 2,
        };
        links * (2 * self.propagation_ns * self.gbps / 8 + 1_538)
    }

    fn setup(&self, buffer: u64, load: f64) -> Result<(Setup, Work), String> {
        let Case { protocol, topology, gbps, propagation_ns, size, pattern, seed, .. } = self;
        let link = format!("{{ rate = \"{gbps}Gbps\", propagation = \"{propagation_ns}ns\" }}");
        // Headers take their part of the links.
        let load = load * *size as f64 / (size + 90 * size.div_ceil(1_460)) as f64;
        let text = format!(
            "seed = {seed}\n[network]\ntopology = {topology}\nlink = {link}\n{}\
             switch = {{ buffer = \"{buffer}B\" }}\n[fabric]\nprotocol = \"{protocol}\"\n\
             [workload]\nkind = \"flows\"\nsize = \"{size}B\"\npattern = {pattern}\nload = {load}\n\
             messages = {MESSAGES}\n",
            match topology.contains("leaf-spine") || topology.contains("fat-tree") {
                true => format!("core_link = {link}\n"),
                false => String::new(),
            }
        );
        let parsed =
            Scenario::parse("grid.toml", &text, &Overrides::none()).map_err(|why| why.to_string())?;
        let mut scenario = parsed.check(&known()).map_err(|why| why.to_string())?;
        let setup = Setup::from_scenario(&mut scenario).map_err(|why| why.to_string())?;
        let work = Work::drawn(&scenario).map_err(|why| why.to_string())?.unwrap();
        Ok((setup, work))
    }
}

#[test]
#[ignore = "exploration"]
fn explore() {
    let random = &mut SplitMix64::new(std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1));
    let count: usize = std::env::var("COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(10);
    let only = std::env::var("ONLY").unwrap_or_default();
    for promise in PROMISES
        .iter()
        .filter(|promise| only.is_empty() || only.split(',').any(|o| o == promise.protocol.to_string()))
    {
        for _ in 0..count {
            let case = Case::draw(promise, random);
            let started = std::time::Instant::now();
            let (setup, _) = match case.setup(case.buffer, 0.5).and_then(|(setup, work)| {
                setup.run(&work, |_| {}).map_err(|why| why.to_string())?;
                Ok((setup, work))
            }) {
                Ok(setup) => setup,
                Err(why) => {
                    println!(
                        "{{\"protocol\":\"{}\",\"refused\":{why:?},\"case\":{:?}}}",
                        case.protocol,
                        format!("{case:?}")
                    );
                    continue;
                }
            };
            let mut means = Vec::new();
            let mut tails = Vec::new();
            let mut worst = Vec::new();
            let mut drops = Vec::new();
            let mut complete = true;
            for load in LOADS {
                let (setup, work) = case.setup(case.buffer, load).unwrap();
                let mut watch = Watch { journal: Some(Journal::of_all()), ..Watch::default() };
                let run = setup.watched(&work, &mut watch, |_| {}).unwrap().run;
                complete &= run.is_complete();
                let mut all: Vec<(f64, usize)> =
                    (0..run.messages.len()).filter_map(|n| Some((run.slowdown(n)?, n))).collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                if all.is_empty() {
                    means.push(0.0);
                    tails.push(0.0);
                    continue;
                }
                means.push(all.iter().map(|a| a.0).sum::<f64>() / all.len() as f64);
                let p99 = all[all.len() * 99 / 100 - 1].0;
                tails.push(all[all.len() - 1].0 / p99);
                drops.push(run.counters.dropped_packets);
                let journal = watch.journal.take().unwrap();
                let why = explain(&journal, &setup.network, MessageId(all[all.len() - 1].1 as u32)).unwrap();
                let sums = why.sums();
                let Some(most) = sums.iter().max_by_key(|sum| sum.1) else {
                    worst.push("nothing".into());
                    continue;
                };
                let total: Time = sums.iter().map(|s| s.1).sum();
                worst.push(format!("{:?} {:.2}", most.0, most.1.as_ps() as f64 / total.as_ps() as f64));
            }
            let nodes = setup.network.nodes();
            let bdp = case.bdp();
            let each = (10 * bdp / u64::from(nodes - 1)).max(50_000);
            let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let messages: Vec<(Time, Message)> =
                pairs.map(|(a, b)| (Time::ZERO, Message::flow(a, b, each))).collect();
            let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
            complete &= run.is_complete();
            let last = if run.is_complete() {
                (0..run.messages.len()).map(|n| completion_ps(&run, n)).max().unwrap()
            } else {
                u64::MAX
            };
            let bytes = each * u64::from(nodes - 1);
            let share = bytes as f64 * 8.0 / (case.gbps as f64 * 1e9 * last as f64 * 1e-12);
            println!(
                "{{\"protocol\":\"{}\",\"complete\":{complete},\"share\":{share:.3},\"sync_drops\":{},\"means\":{means:.2?},\"tails\":{tails:.2?},\"drops\":{drops:?},\"worst\":{worst:?},\"s\":{:.2},\"case\":\"{}\",\"buffer\":{},\"gbps\":{},\"ns\":{},\"size\":{},\"pattern\":{:?},\"topology\":{:?},\"seed\":{}}}",
                case.protocol,
                run.counters.dropped_packets,
                started.elapsed().as_secs_f64(),
                "",
                case.buffer,
                case.gbps,
                case.propagation_ns,
                case.size,
                case.pattern,
                case.topology,
                case.seed
            );
        }
    }
}
