//! A grid of settings, for what each protocol promises at all of them (docs/protocols.md): every message arrives, more
//! buffer never slows a run down by much, and neither does less load.
//!
//! A case is drawn by its number: protocol, buffer, rate, length, size and pattern. `UNRACK_EXTREMES=all`, which
//! `make soak` sets, draws many; otherwise some are, by `PROPTEST_RNG_SEED`.

use crate::common::fabrics::*;

use unrack_basis::SplitMix64;
use unrack_rack::{Overrides, Protocol, Scenario};
use unrack_sim::{Run, Setup, Work};

/// Protocols whose senders or receivers see to it that buffers are not filled for their own sake, as loss-based
/// congestion control does.
const PROTOCOLS: [Protocol; 6] =
    [Pfabric::PROTOCOL, Phost::PROTOCOL, Homa::PROTOCOL, Ird::PROTOCOL, Ndp::PROTOCOL, Fastpass::PROTOCOL];

/// Cases of each protocol in the short form and in the long one.
const CASES: [usize; 2] = [8, 400];
/// Largest ratio of a mean slowdown to that with a smaller buffer or a higher load. Runs are short, and a few
/// messages that meet change the mean of one.
const MOST: f64 = 1.5;

#[derive(Debug, Clone, Copy)]
struct Case {
    protocol: Protocol,
    gbps: u64,
    propagation_ns: u64,
    size: &'static str,
    pattern: &'static str,
    seed: u64,
}

impl Case {
    fn draw(protocol: Protocol, random: &mut SplitMix64) -> Case {
        let mut pick = |count: usize| (random.next_u64() % count as u64) as usize;
        let patterns = ["\"all-to-all\"", "\"permutation\"", "{ kind = \"incast\", fan_in = 8 }"];
        Case {
            protocol,
            gbps: [1, 10, 40, 100, 400][pick(5)],
            propagation_ns: [10, 100, 1_000, 10_000][pick(4)],
            size: ["\"64B\"", "\"4KiB\"", "\"30kB\"", "\"100kB\""][pick(4)],
            pattern: patterns[pick(3)],
            seed: pick(1 << 20) as u64,
        }
    }

    fn run(&self, buffer: u64, load: f64) -> Run {
        let Case { protocol, gbps, propagation_ns, size, pattern, seed } = self;
        let text = format!(
            "seed = {seed}\n[network]\ntopology = {{ kind = \"star\", nodes = 16 }}\n\
             link = {{ rate = \"{gbps}Gbps\", propagation = \"{propagation_ns}ns\" }}\n\
             switch = {{ buffer = \"{buffer}B\" }}\n[fabric]\nprotocol = \"{protocol}\"\n\
             [workload]\nkind = \"flows\"\nsize = {size}\npattern = {pattern}\nload = {load}\nmessages = 400\n"
        );
        let parsed = Scenario::parse("grid.toml", &text, &Overrides::none()).unwrap();
        let mut scenario = parsed.check(&known()).unwrap();
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap().run
    }
}

fn mean_slowdown(run: &Run) -> f64 {
    let all = (0..run.messages.len()).map(|index| run.slowdown(index).unwrap());
    all.sum::<f64>() / run.messages.len() as f64
}

/// Returns what a case breaks of the promises.
fn broken(case: &Case) -> Vec<String> {
    let mut broken = Vec::new();
    let mut mean = |buffer: u64, load: f64| {
        let run = case.run(buffer, load);
        if !run.is_complete() {
            broken.push(format!("{buffer} B at {load}: {:?}", run.ending));
            return f64::NAN;
        }
        mean_slowdown(&run)
    };
    let buffers = [8 << 10, 36 << 10, 256 << 10, 4 << 20];
    let by_buffer = buffers.map(|buffer| mean(buffer, 0.5));
    let by_load = [0.1, 0.3].map(|load| mean(256 << 10, load));
    for (n, pair) in by_buffer.windows(2).enumerate() {
        if pair[1] > MOST * pair[0] {
            broken.push(format!("{} B: {:.2}, {} B: {:.2}", buffers[n], pair[0], buffers[n + 1], pair[1]));
        }
    }
    if by_load[0] > MOST * by_load[1] || by_load[1] > MOST * by_buffer[2] {
        broken.push(format!("loads of 0.1, 0.3, 0.5: {by_load:.2?}, {:.2}", by_buffer[2]));
    }
    broken
}

#[test]
fn no_cliff_between_the_extremes_of_a_grid() {
    let all = std::env::var("UNRACK_EXTREMES").is_ok_and(|value| value == "all");
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = SplitMix64::new(seed);
    let mut wrong = Vec::new();
    for protocol in PROTOCOLS {
        for _ in 0..CASES[usize::from(all)] {
            let case = Case::draw(protocol, &mut random);
            wrong.extend(broken(&case).into_iter().map(|why| format!("{case:?}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "PROPTEST_RNG_SEED={seed}\n{}", wrong.join("\n"));
}
