//! R2C2 fig. 18: gain of the genetic search for routings over a single routing for all flows, and over random routings.

use crate::file::StudyScale;
use crate::fluid::{links, torus};
use crate::random::Random;
use rayon::prelude::*;
use std::sync::Arc;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::rates::Requirements;
use unrack_protocol::r2c2::selection::{Candidate, Params, Search, Utility, aggregate, worth};
use unrack_protocol::r2c2::weights::{FlowPaths, Weights};
use unrack_rack::graph::Graph;

/// Loads: the share of nodes that send, in eighths.
const LOADS: [u32; 4] = [1, 2, 4, 8];

/// Returns ratios for a torus of 8x8x8 nodes, or of 4x4x4 in a quick run, at each load: the utility that the search finds over
/// that of each baseline, and the utility of VLB over that of spraying.
///
/// If not `searches`, the routings are drawn instead.
pub(super) fn gains(scale: StudyScale, searches: bool) -> Vec<(String, f64)> {
    let graph = torus(if scale == StudyScale::Full { &[8, 8, 8] } else { &[4, 4, 4] });
    let of = |load: &u32| gains_at(&graph, *load, searches);
    let mut gains: Vec<(String, f64)> = LOADS.par_iter().flat_map_iter(of).collect();
    let over_baselines = gains.iter().filter(|(name, _)| !name.starts_with("baselines"));
    let least = over_baselines.map(|(_, gain)| *gain).fold(f64::INFINITY, f64::min);
    gains.push(("least".into(), least));
    gains
}

fn gains_at(graph: &Arc<Graph>, load: u32, searches: bool) -> Vec<(String, f64)> {
    let mut random = Random::new(u64::from(load));
    let flows = candidates(graph, &pairs(graph.nodes(), load, &mut random));
    let drawn: Vec<u8> = flows.iter().map(|_| random.below(2) as u8).collect();
    let worth = |genes: Vec<u8>| worth(links(graph), &flows, &genes, &aggregate);
    let [spraying, vlb, random_of_both] = [vec![0; flows.len()], vec![1; flows.len()], drawn].map(worth);
    let with = (Params::default(), &aggregate as Utility);
    let mut bits = || random.bits();
    let found = match searches {
        true => {
            Search::new(&links(graph), &flows, vec![0; flows.len()], with, &mut bits).run(&mut bits).utility
        }
        false => random_of_both,
    };
    vec![
        (format!("spraying.{load}"), found / spraying),
        (format!("vlb.{load}"), found / vlb),
        (format!("random.{load}"), found / random_of_both),
        (format!("baselines.{load}"), vlb / spraying),
    ]
}

/// Draws pairs of nodes. Each node sends to at most one other node, and receives from at most one (§5.2).
fn pairs(nodes: u32, eighths: u32, random: &mut Random) -> Vec<(u32, u32)> {
    let mut shuffled = || {
        let mut order: Vec<u32> = (0..nodes).collect();
        for last in (1..nodes as usize).rev() {
            order.swap(last, random.below(last as u32 + 1) as usize);
        }
        order
    };
    let (from, to) = (shuffled(), shuffled());
    let pairs = from.into_iter().zip(to).filter(|(src, dst)| src != dst);
    pairs.take((nodes * eighths / 8) as usize).collect()
}

fn candidates(graph: &Arc<Graph>, pairs: &[(u32, u32)]) -> Vec<Candidate> {
    let mut weights = Weights::new(graph.clone());
    let routings = [Routing::Spraying, Routing::Vlb];
    let candidate = |(src, dst): &(u32, u32)| {
        let ways = FlowPaths { routing: routings[0], src: *src, dst: *dst, flow: 0 };
        Candidate::new(Requirements::default(), &routings, ways, &mut weights)
    };
    pairs.iter().map(candidate).collect()
}
