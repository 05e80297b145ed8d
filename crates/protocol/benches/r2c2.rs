//! What the computations of R2C2 cost on an 8x8x8 torus: `cargo bench -p unrack-protocol`.
//!
//! Rates of flows between drawn nodes: all anew, and after one flow ended and another began. Exact weights: the first
//! time that each of 200 pairs is asked for, and the second. One generation of the genetic search at 512 flows.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::rates::{Asked, Rates, Slot};
use unrack_protocol::r2c2::selection::{Candidate, Params, Search, Utility, aggregate};
use unrack_protocol::r2c2::weights::{Share, Ways, Weights};
use unrack_rack::graph::{Graph, Sides};
use unrack_units::Rate;

fn main() {
    let graph = Arc::new(Graph::cube(Sides::new(&[8, 8, 8]).expect("sides"), true).expect("a torus"));
    rates(&graph);
    weights(&graph);
    generation(&graph);
}

/// Median and 99th percentile.
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
    let mut state = 1u64;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn shares(weights: &mut Weights, routing: Routing, random: &mut impl FnMut() -> u64) -> Arc<[Share]> {
    let mut shares = Vec::new();
    let (src, apart) = (random() % 512, random() % 511 + 1);
    let ways = Ways { routing, src: src as u32, dst: ((src + apart) % 512) as u32, flow: 0 };
    weights.append(ways, &mut shares);
    shares.into()
}

fn links(graph: &Graph) -> Rates {
    Rates::new((0..graph.links()).map(|_| Rate::from_gbps(10)), 0.05)
}

fn rates(graph: &Arc<Graph>) {
    let mut random = drawing();
    let mut weights = Weights::new(graph.clone());
    for flows in [30, 100, 1_000, 2_000, 10_000] {
        let mut rates = links(graph);
        let mut add = |rates: &mut Rates| {
            rates.add(Asked::default(), shares(&mut weights, Routing::Spraying, &mut random))
        };
        let mut slots: Vec<Slot> = (0..flows).map(|_| add(&mut rates)).collect();
        rates.settle();
        let anew = (0..200).map(|_| timed(|| rates.settle_anew())).collect();
        show(&format!("rates of {flows} flows, anew"), anew);
        let mut changed = Vec::new();
        for n in 0..500 {
            let place = n * 7 % slots.len();
            changed.push(timed(|| {
                rates.remove(slots[place]);
                slots[place] = add(&mut rates);
                rates.settle();
            }));
        }
        show(&format!("rates of {flows} flows, one ends, one begins"), changed);
    }
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
            asked: Asked::default(),
            choices: [Routing::Spraying, Routing::Vlb]
                .map(|routing| shares(&mut weights, routing, &mut random))
                .into(),
        })
        .collect();
    let with = (Params { population: 20, ..Params::default() }, &aggregate as Utility);
    let mut search = Search::new(links(graph), &flows, vec![0; 512], with, &mut random);
    let times = (0..3).map(|_| timed(|| search.generation(&mut random))).collect();
    show("a generation of 20 genotypes of 512 flows", times);
}
