//! PageRank on timely dataflow (Murray et al., Naiad, SOSP 2013). Each worker owns the nodes of one residue class. A node sends a part of
//! its rank along each edge, as a message to the worker that owns the edge's target. Each iteration is one timestamp of the dataflow.

use super::threads::DAMPING;
use crate::ProgramError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use timely::Config;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{ConnectLoop, Feedback, ToStream};
use unrack_lines_kernels::SparseGraph;

/// Returns the ranks of all nodes after some iterations.
///
/// # Errors
/// [`ProgramError::Dataflow`] if the workers cannot be started, or one of them ends early.
pub(super) fn pagerank(
    graph: SparseGraph,
    iterations: u32,
    workers: usize,
) -> Result<Vec<f64>, ProgramError> {
    let nodes = graph.nodes();
    let graph = Arc::new(graph);
    let config = if workers == 1 { Config::thread() } else { Config::process(workers) };
    let done = timely::execute(config, move |worker| {
        let owned = Rc::new(RefCell::new(OwnedNodes::new(worker.index(), worker.peers(), nodes)));
        let (state, index, peers) = (owned.clone(), worker.index() as u32, worker.peers());
        let graph = graph.clone();
        worker.dataflow::<u32, _, _>(move |scope| {
            let targets = (index..nodes as u32).step_by(peers);
            let edges: Vec<(u32, u32)> =
                targets.flat_map(|to| graph.neighbours(to).iter().map(move |from| (*from, to))).collect();
            let edges = edges.to_stream(scope).container::<Vec<_>>();
            let (handle, parts) = scope.feedback(1u32);
            let owner = |node: u32| u64::from(node);
            edges
                .binary_frontier(
                    parts,
                    Exchange::new(move |edge: &(u32, u32)| owner(edge.0)),
                    Exchange::new(move |part: &(u32, f64)| owner(part.0)),
                    "PageRank",
                    move |capability, _| {
                        // Timestamp of the iteration in progress; `None` after the last one.
                        let mut now = Some(capability);
                        move |(edges, no_edges), (parts, no_parts), output| {
                            edges.for_each_stamp(|_, data| {
                                data.for_each(|edges| state.borrow_mut().add_edges(edges));
                            });
                            parts.for_each_stamp(|stamp, data| {
                                // The parts of one message have the capability of a single timestamp.
                                if let Some(time) = stamp.least() {
                                    data.for_each(|parts| state.borrow_mut().add_parts(*time, parts));
                                }
                            });
                            while let Some(capability) = &now {
                                let time = *capability.time();
                                if no_edges.frontier().less_equal(&time)
                                    || no_parts.frontier().less_equal(&time)
                                {
                                    break;
                                }
                                let mut state = state.borrow_mut();
                                state.finish(time);
                                if time < iterations {
                                    let mut session = output.session(capability);
                                    state.parts(|part| session.give(part));
                                }
                                now = (time < iterations).then(|| capability.delayed(&(time + 1)));
                            }
                        }
                    },
                )
                .connect_loop(handle);
        });
        while worker.step() {}
        owned.take()
    });
    let done = done.map_err(ProgramError::Dataflow)?;
    let mut ranks = vec![0.0; nodes];
    for owned in done.join() {
        owned.map_err(ProgramError::Dataflow)?.put_into(&mut ranks);
    }
    Ok(ranks)
}

/// Nodes that one worker owns: those whose number modulo the number of workers is the worker's index.
#[derive(Default)]
struct OwnedNodes {
    index: usize,
    peers: usize,
    nodes: usize,
    /// Edges in order of arrival, as source and target.
    edges: Vec<(u32, u32)>,
    /// Sums of the received parts, by node, for each iteration that has not ended. There can be several iterations, because parts of the
    /// next one arrive early from a worker that is ahead.
    sums: BTreeMap<u32, Vec<f64>>,
    ranks: Vec<f64>,
    degrees: Vec<u32>,
}

impl OwnedNodes {
    fn new(index: usize, peers: usize, nodes: usize) -> OwnedNodes {
        let count = nodes.saturating_sub(index).div_ceil(peers);
        OwnedNodes {
            index,
            peers,
            nodes,
            edges: Vec::new(),
            sums: BTreeMap::new(),
            ranks: vec![1.0 / nodes as f64; count],
            degrees: vec![0; count],
        }
    }

    fn place(&self, node: u32) -> usize {
        node as usize / self.peers
    }

    fn add_edges(&mut self, edges: &mut Vec<(u32, u32)>) {
        for edge in edges.drain(..) {
            let place = self.place(edge.0);
            self.degrees[place] += 1;
            self.edges.push(edge);
        }
    }

    fn add_parts(&mut self, time: u32, parts: &mut Vec<(u32, f64)>) {
        let (count, peers) = (self.ranks.len(), self.peers);
        let sums = self.sums.entry(time).or_insert_with(|| vec![0.0; count]);
        parts.drain(..).for_each(|(node, part)| sums[node as usize / peers] += part);
    }

    /// Ends an iteration. In the first iteration only edges arrive.
    fn finish(&mut self, time: u32) {
        if time == 0 {
            self.edges.sort_unstable();
            return;
        }
        let base = (1.0 - DAMPING) / self.nodes as f64;
        let sums = self.sums.remove(&time).unwrap_or_else(|| vec![0.0; self.ranks.len()]);
        self.ranks.iter_mut().zip(sums).for_each(|(rank, sum)| *rank = base + DAMPING * sum);
    }

    /// Passes the part of the source's rank that each edge carries to `give`.
    fn parts(&self, mut give: impl FnMut((u32, f64))) {
        for (from, to) in &self.edges {
            let place = self.place(*from);
            give((*to, self.ranks[place] / f64::from(self.degrees[place])));
        }
    }

    fn put_into(self, ranks: &mut [f64]) {
        for (place, rank) in self.ranks.into_iter().enumerate() {
            ranks[place * self.peers + self.index] = rank;
        }
    }
}
