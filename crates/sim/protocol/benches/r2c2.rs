//! Benchmark of the computing time of R2C2's algorithms on an 8x8x8 torus: `cargo bench -p unrack-protocol [--
//! replay|rates|weights|generation]`.
//!
//! `replay` and `rates` measure how long a node takes to compute the rates of all flows from scratch, and how long it
//! takes to update them after a batch of flows has begun or ended. `replay` uses the workload of fig. 8, and `rates`
//! uses fixed numbers of flows. The output also gives each computing time as a percentage of the interval between two
//! computations. `weights` measures the link weights of 200 pairs of nodes, first without and then with cached results.
//! `generation` measures one generation of the genetic search for the routing of 512 flows.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_basis::SplitMix64;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::rates::{Rates, Requirements, Slot};
use unrack_protocol::r2c2::selection::{Candidate, Params, Search, Utility, aggregate};
use unrack_protocol::r2c2::weights::{FlowPaths, LinkShare, Weights};
use unrack_rack::graph::{Graph, Sides};
use unrack_units::Rate;

fn main() {
    let graph = Arc::new(Graph::cube(Sides::new(&[8, 8, 8]).expect("sides"), true).expect("a torus"));
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if is_wanted("replay") {
        for (between, interval) in [(1e-6, 500e-6), (1e-6, 100e-6), (100e-9, 500e-6)] {
            replay(&graph, between, interval);
        }
    }
    if is_wanted("rates") {
        rates(&graph);
    }
    if is_wanted("weights") {
        weights(&graph);
    }
    if is_wanted("generation") {
        generation(&graph);
    }
}

/// Prints the median and the 99th percentile of `times` in one line, which begins with the label `what`.
fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{what:44} {:10.1} us, p99 {:10.1} us", at(0.5), at(0.99));
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn drawing() -> impl FnMut() -> u64 {
    let mut random = SplitMix64::new(1);
    move || random.next_u64()
}

fn shares(weights: &mut Weights, routing: Routing, random: &mut impl FnMut() -> u64) -> Arc<[LinkShare]> {
    let (src, apart) = (random() % 512, random() % 511 + 1);
    weights.shares(FlowPaths { routing, src: src as u32, dst: ((src + apart) % 512) as u32, flow: 0 })
}

fn links(graph: &Graph) -> Rates {
    Rates::new((0..graph.links()).map(|_| Rate::from_gbps(10)), 0.05)
}

/// Replays the workload of §5.2 as one node sees it, with a mean time of `between` seconds between the starts of flows.
/// Flow sizes follow a Pareto distribution (shape 1.05, 100 KB on average), and sources and destinations are random. A
/// flow sends at link rate during its first `interval` seconds. After that, the rate computation includes the flow, and
/// the flow sends at its computed rate. The measured time is that of one whole batch: to remove the flows that have
/// ended, to add the flows that have become one interval old, and to compute the rates.
fn replay(graph: &Arc<Graph>, between: f64, interval: f64) {
    let mut random = drawing();
    let mut unit = move || ((random() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let mut ends = drawing();
    let mut weights = Weights::new(graph.clone());
    let mut rates = links(graph);
    // Young flows are not in the rate computation yet: the time at which each of them enters it, and the bytes that the
    // flow will have left at that time. Old flows are in the rate computation: their slots and the bytes that they have
    // left.
    let mut young: VecDeque<(f64, f64)> = VecDeque::new();
    let mut old: Vec<(Slot, f64)> = Vec::new();
    let (mut clock, mut begins) = (0.0, 0.0);
    let (mut batches, mut anew, mut counts) = (Vec::new(), Vec::new(), [0; 2]);
    for n in 0..BATCHES + WARMING {
        clock += interval;
        while begins < clock {
            let bytes = 100e3 * (0.05 / 1.05) * unit().powf(-1.0 / 1.05);
            let left = bytes - LINK_BPS / 8.0 * interval;
            if left > 0.0 {
                young.push_back((begins + interval, left));
            }
            begins -= unit().ln() * between;
        }
        old.iter_mut().for_each(|(slot, left)| *left -= f64::from(rates.kbps(*slot)) * 125.0 * interval);
        let comes = young.partition_point(|(from, _)| *from <= clock);
        let goes = old.iter().filter(|(_, left)| *left <= 0.0).count();
        let batch = timed(|| {
            old.retain(|(slot, left)| {
                if *left <= 0.0 {
                    rates.remove(*slot);
                }
                *left > 0.0
            });
            for (_, left) in young.drain(..comes) {
                old.push((
                    rates.add(Requirements::default(), shares(&mut weights, Routing::Spraying, &mut ends)),
                    left,
                ));
            }
            rates.settle();
        });
        if n >= WARMING {
            batches.push(batch);
            counts = [counts[0] + old.len(), counts[1] + comes + goes];
            anew.push(timed(|| rates.settle_anew()));
        }
    }
    let [flows, changes] = counts.map(|count| count as f64 / BATCHES as f64);
    println!(
        "a flow each {:.1} us, batches of {:.0} us: {flows:.0} count, {changes:.1} come or go",
        between * 1e6,
        interval * 1e6
    );
    for (what, times) in [("  a batch", batches), ("  all anew", anew)] {
        show_share(what, times, interval);
    }
}

const LINK_BPS: f64 = 10e9;
/// Number of batches before the measurement starts. They bring the replay into a steady state, in which as many flows
/// end as begin. A load that the rack cannot carry never reaches this state.
const WARMING: usize = 1_000;
const BATCHES: usize = 1_000;

/// Measures the rate computation with 30 to 10,000 flows. A batch replaces three flows, which is about as many as in a
/// batch of [`replay`].
fn rates(graph: &Arc<Graph>) {
    const CHANGES: usize = 3;
    let mut random = drawing();
    let mut weights = Weights::new(graph.clone());
    for flows in [30, 100, 1_000, 2_000, 10_000] {
        let mut rates = links(graph);
        let mut add = |rates: &mut Rates| {
            rates.add(Requirements::default(), shares(&mut weights, Routing::Spraying, &mut random))
        };
        let mut slots: VecDeque<Slot> = (0..flows).map(|_| add(&mut rates)).collect();
        rates.settle();
        let anew = (0..200).map(|_| timed(|| rates.settle_anew())).collect();
        let batch = |_| {
            timed(|| {
                for slot in slots.drain(..CHANGES).collect::<Vec<_>>() {
                    rates.remove(slot);
                }
                slots.extend((0..CHANGES).map(|_| add(&mut rates)));
                rates.settle();
            })
        };
        let batches = (0..500).map(batch).collect();
        println!("{flows} flows that count, of which {CHANGES} end and as many begin");
        show_share("  a batch", batches, 500e-6);
        show_share("  all anew", anew, 500e-6);
    }
}

fn show_share(what: &str, mut times: Vec<Duration>, interval: f64) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64();
    let [median, p99] = [0.5, 0.99].map(at);
    let [of_median, of_p99] = [median, p99].map(|time| time / interval * 100.0);
    println!(
        "{what:12} {:8.1} us ({of_median:.2} %), p99 {:8.1} us ({of_p99:.2} %)",
        median * 1e6,
        p99 * 1e6
    );
}

fn weights(graph: &Arc<Graph>) {
    for routing in Routing::ALL {
        let mut weights = Weights::new(graph.clone());
        for when in ["cold", "kept"] {
            let mut random = drawing();
            let times = (0..200).map(|_| {
                timed(|| {
                    black_box(shares(&mut weights, routing, &mut random));
                })
            });
            show(&format!("weights of a pair, {routing}, {when}"), times.collect());
        }
    }
}

fn generation(graph: &Arc<Graph>) {
    let mut random = drawing();
    let mut weights = Weights::new(graph.clone());
    let flows: Vec<Candidate> = (0..512)
        .map(|_| Candidate {
            asked: Requirements::default(),
            choices: [Routing::Spraying, Routing::Vlb]
                .map(|routing| shares(&mut weights, routing, &mut random))
                .into(),
        })
        .collect();
    let with = (Params { population: 20, ..Params::default() }, &aggregate as Utility);
    let mut search = Search::new(&links(graph), &flows, vec![0; 512], with, &mut random);
    let times = (0..3).map(|_| timed(|| search.generation(&mut random))).collect();
    show("a generation of 20 genotypes of 512 flows", times);
}
