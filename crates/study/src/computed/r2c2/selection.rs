//! R2C2 fig. 18: what the genetic search gains over one routing for all flows, and over drawn ones.

use super::arithmetic::torus;
use std::sync::Arc;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::rates::{Asked, Rates};
use unrack_protocol::r2c2::selection::{Candidate, Params, Search, Utility, aggregate, worth};
use unrack_protocol::r2c2::weights::{Ways, Weights};
use unrack_rack::graph::Graph;
use unrack_units::Rate;

/// Eighths of the nodes that send.
const LOADS: [u32; 4] = [1, 2, 4, 8];

/// Of 4x4x4 nodes, at each load: the utility found over that of each baseline.
pub fn gains() -> Vec<(String, f64)> {
    let graph = torus(&[4, 4, 4]);
    let mut random = drawing();
    let mut gains = Vec::new();
    for load in LOADS {
        let flows = candidates(&graph, &pairs(graph.nodes(), load, &mut random));
        let drawn: Vec<u8> = flows.iter().map(|_| (random() >> 63) as u8).collect();
        let worth = |genes: Vec<u8>| worth(links(&graph), &flows, &genes, &aggregate);
        let baselines = [
            ("spraying", worth(vec![0; flows.len()])),
            ("vlb", worth(vec![1; flows.len()])),
            ("random", worth(drawn)),
        ];
        let with = (Params::default(), &aggregate as Utility);
        let found =
            Search::new(links(&graph), &flows, vec![0; flows.len()], with, &mut random).run(&mut random);
        for (name, worth) in baselines {
            gains.push((format!("{name}.{load}"), found.utility / worth));
        }
    }
    let least = gains.iter().map(|(_, gain)| *gain).fold(f64::INFINITY, f64::min);
    gains.push(("least".into(), least));
    gains
}

fn links(graph: &Graph) -> Rates {
    Rates::new((0..graph.links()).map(|_| Rate::from_gbps(10)), 0.05)
}

/// Every node sends to one other at the most, and gets from one (§5.2).
fn pairs(nodes: u32, eighths: u32, random: &mut impl FnMut() -> u64) -> Vec<(u32, u32)> {
    let mut shuffled = || {
        let mut order: Vec<u32> = (0..nodes).collect();
        for last in (1..nodes as usize).rev() {
            order.swap(last, (random() % (last as u64 + 1)) as usize);
        }
        order
    };
    let (from, to) = (shuffled(), shuffled());
    let pairs = from.into_iter().zip(to).filter(|(src, dst)| src != dst);
    pairs.take((nodes * eighths / 8) as usize).collect()
}

fn candidates(graph: &Arc<Graph>, pairs: &[(u32, u32)]) -> Vec<Candidate> {
    let mut weights = Weights::new(graph.clone());
    let mut of = |routing, src, dst| {
        let mut shares = Vec::new();
        weights.append(Ways { routing, src, dst, flow: 0 }, &mut shares);
        shares.into()
    };
    let both = |(src, dst): &(u32, u32)| Candidate {
        asked: Asked::default(),
        choices: [Routing::Spraying, Routing::Vlb].map(|routing| of(routing, *src, *dst)).into(),
    };
    pairs.iter().map(both).collect()
}

/// SplitMix64.
fn drawing() -> impl FnMut() -> u64 {
    let mut state = 18u64;
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
