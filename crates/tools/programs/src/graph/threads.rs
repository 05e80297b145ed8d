//! PageRank and connected components, computed by threads that share the graph.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use unrack_lines_kernels::SparseGraph;

/// Damping factor of PageRank, with its usual value: the probability of following an edge instead of jumping to a random node.
pub(super) const DAMPING: f64 = 0.85;

/// Returns the ranks after some iterations. Nodes pull ranks along their incoming edges, and each thread computes a part of the nodes.
pub(super) fn pagerank(graph: &SparseGraph, iterations: u32, threads: usize) -> Vec<f64> {
    let nodes = graph.nodes();
    let mut degrees = vec![0u32; nodes];
    (0..nodes as u32)
        .for_each(|to| graph.neighbours(to).iter().for_each(|from| degrees[*from as usize] += 1));
    let mut ranks = vec![1.0 / nodes as f64; nodes];
    let mut given = vec![0.0; nodes];
    let part = nodes.div_ceil(threads);
    for _ in 0..iterations {
        for (given, (rank, degree)) in given.iter_mut().zip(ranks.iter().zip(&degrees)) {
            *given = rank / f64::from((*degree).max(1));
        }
        let given = &given;
        let pull = |(part_number, ranks): (usize, &mut [f64])| {
            for (node, rank) in ranks.iter_mut().enumerate() {
                let neighbours = graph.neighbours((part_number * part + node) as u32);
                let sum: f64 = neighbours.iter().map(|from| given[*from as usize]).sum();
                *rank = (1.0 - DAMPING) / nodes as f64 + DAMPING * sum;
            }
        };
        each(ranks.chunks_mut(part).enumerate(), pull);
    }
    ranks
}

/// Returns for each node the smallest node of its component. Edges count in both directions. With one thread, sets are merged along the
/// edges, as in COST; with several threads, the smallest label is propagated along the edges until no label changes.
pub(super) fn components(graph: &SparseGraph, threads: usize) -> Vec<u32> {
    match threads {
        1 => joined(graph),
        _ => spread(graph, threads),
    }
}

/// Merges sets by their smallest node, with path halving.
fn joined(graph: &SparseGraph) -> Vec<u32> {
    let mut parents: Vec<u32> = (0..graph.nodes() as u32).collect();
    let root = |parents: &mut [u32], mut node: u32| {
        while parents[node as usize] != node {
            parents[node as usize] = parents[parents[node as usize] as usize];
            node = parents[node as usize];
        }
        node
    };
    for to in 0..graph.nodes() as u32 {
        for from in graph.neighbours(to) {
            let (a, b) = (root(&mut parents, to), root(&mut parents, *from));
            parents[a.max(b) as usize] = a.min(b);
        }
    }
    (0..graph.nodes() as u32).map(|node| root(&mut parents, node)).collect()
}

/// Propagates labels. Labels only decrease, so the result does not depend on the order in which threads lower them.
fn spread(graph: &SparseGraph, threads: usize) -> Vec<u32> {
    let labels: Vec<AtomicU32> = (0..graph.nodes() as u32).map(AtomicU32::new).collect();
    let changed = AtomicBool::new(true);
    let parts: Vec<u32> = (0..graph.nodes() as u32).collect();
    while changed.swap(false, Ordering::Relaxed) {
        let lower = |nodes: &[u32]| {
            for to in nodes {
                for from in graph.neighbours(*to) {
                    let (a, b) = (&labels[*to as usize], &labels[*from as usize]);
                    let least = a.load(Ordering::Relaxed).min(b.load(Ordering::Relaxed));
                    let before =
                        a.fetch_min(least, Ordering::Relaxed).max(b.fetch_min(least, Ordering::Relaxed));
                    if before > least {
                        changed.store(true, Ordering::Relaxed);
                    }
                }
            }
        };
        each(parts.chunks(parts.len().div_ceil(threads)), lower);
    }
    labels.into_iter().map(AtomicU32::into_inner).collect()
}

/// Processes each part in a separate thread, and waits for all threads.
fn each<T: Send>(parts: impl Iterator<Item = T>, work: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for part in parts {
            let work = &work;
            scope.spawn(move || work(part));
        }
    });
}
