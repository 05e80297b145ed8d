//! Who talks to whom.

use super::below;
use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::{Purpose, generator};
use rand_pcg::Pcg64Mcg;

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every node to every other, drawn anew for each message.
    AllToAll,
    /// Every node to one other, each to another one, for the whole run.
    Permutation,
    /// Nodes 1 to `senders` to node 0.
    Incast { senders: u32 },
}

/// A pattern on a given number of nodes.
pub(super) struct Partners {
    pattern: Pattern,
    nodes: u32,
    /// Of a permutation: each node's destination.
    fixed: Vec<NodeId>,
}

impl Partners {
    pub fn new(pattern: Pattern, nodes: u32, seed: u64) -> Result<Partners, WorkloadError> {
        if nodes < 2 {
            return Err(WorkloadError::new("network.topology.nodes", "is at least 2", nodes));
        }
        if let Pattern::Incast { senders } = pattern
            && !(1..nodes).contains(&senders)
        {
            return Err(WorkloadError::new(
                "workload.pattern.senders",
                "is at least 1 and below the number of nodes",
                senders,
            ));
        }
        let fixed = if pattern == Pattern::Permutation { cycle(nodes, seed) } else { Vec::new() };
        Ok(Partners { pattern, nodes, fixed })
    }

    pub fn senders(&self) -> std::ops::Range<NodeId> {
        match self.pattern {
            Pattern::AllToAll | Pattern::Permutation => 0..self.nodes,
            Pattern::Incast { senders } => 1..senders + 1,
        }
    }

    pub fn sender(&self, actor: u32) -> NodeId {
        self.senders().start + actor
    }

    pub fn destination(&self, src: NodeId, draws: &mut Pcg64Mcg) -> NodeId {
        match self.pattern {
            Pattern::AllToAll => {
                let other = below(draws, self.nodes - 1);
                other + u32::from(other >= src)
            }
            Pattern::Permutation => self.fixed[src as usize],
            Pattern::Incast { .. } => 0,
        }
    }

    /// How many senders share the busiest link.
    pub fn busiest_senders(&self) -> f64 {
        match self.pattern {
            Pattern::AllToAll | Pattern::Permutation => 1.0,
            Pattern::Incast { senders } => f64::from(senders),
        }
    }
}

/// A random cyclic permutation (Sattolo): no node is its own destination.
fn cycle(nodes: u32, seed: u64) -> Vec<NodeId> {
    let mut draws = generator(seed, Purpose::Permutation, 0);
    let mut to: Vec<NodeId> = (0..nodes).collect();
    for last in (1..nodes).rev() {
        to.swap(last as usize, below(&mut draws, last) as usize);
    }
    to
}
