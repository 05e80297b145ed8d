//! Who talks to whom.

use crate::error::WorkloadError;
use crate::message::NodeId;
use crate::random::{Purpose, below, generator};
use crate::trace::Blades;
use rand_pcg::Pcg64Mcg;
use std::ops::Range;

/// Who talks to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every source to every destination but itself, drawn anew for each message.
    AllToAll,
    /// Every source to one destination for the whole run, and no more sources to one than must be.
    Permutation,
    /// All sources to the last node that can be a destination.
    Incast,
}

/// A pattern on the nodes of a rack.
pub(super) struct Partners {
    pattern: Pattern,
    pub sources: Range<NodeId>,
    destinations: Range<NodeId>,
    /// Of a permutation: each source's destination.
    fixed: Vec<NodeId>,
}

impl Partners {
    /// With blades, those that compute ask those that hold memory; else every node does both.
    pub fn new(
        pattern: Pattern,
        blades: Option<Blades>,
        nodes: u32,
        seed: u64,
    ) -> Result<Partners, WorkloadError> {
        if nodes < 2 {
            return Err(WorkloadError::new("network.topology.nodes", "is at least 2", nodes));
        }
        let (mut sources, mut destinations) = (0..nodes, 0..nodes);
        if let Some(blades) = blades {
            blades.check(nodes)?;
            (sources, destinations) = (0..blades.compute, blades.compute..blades.compute + blades.memory);
        }
        if pattern == Pattern::Incast {
            destinations = destinations.end - 1..destinations.end;
            sources.end = sources.end.min(destinations.start);
        }
        let fixed = if pattern == Pattern::Permutation {
            permutation(&sources, &destinations, seed)
        } else {
            Vec::new()
        };
        Ok(Partners { pattern, sources, destinations, fixed })
    }

    pub fn destination(&self, src: NodeId, draws: &mut Pcg64Mcg) -> NodeId {
        match self.pattern {
            Pattern::AllToAll if self.nodes_do_both() => {
                let other = below(draws, self.destinations.len() as u32 - 1);
                other + u32::from(other >= src)
            }
            Pattern::AllToAll => self.destinations.start + below(draws, self.destinations.len() as u32),
            Pattern::Permutation => self.fixed[(src - self.sources.start) as usize],
            Pattern::Incast => self.destinations.start,
        }
    }

    /// Mean bytes on the busiest direction of any link, per message of one source, if a message
    /// brings `out` bytes from source to destination and `back` bytes back.
    pub fn busiest(&self, out: f64, back: f64) -> f64 {
        if self.nodes_do_both() {
            return out + back;
        }
        let share = self.sources.len() as f64 / self.destinations.len() as f64;
        share.max(1.0) * out.max(back)
    }

    fn nodes_do_both(&self) -> bool {
        self.sources == self.destinations
    }
}

/// Each source's destination: among the same nodes, a random cycle (Sattolo), so that no node is its
/// own; else the destinations in a random order, again and again.
fn permutation(sources: &Range<NodeId>, destinations: &Range<NodeId>, seed: u64) -> Vec<NodeId> {
    let mut draws = generator(seed, Purpose::Permutation, 0);
    let mut to: Vec<NodeId> = destinations.clone().collect();
    for last in (1..to.len() as u32).rev() {
        to.swap(last as usize, below(&mut draws, last) as usize);
    }
    to.into_iter().cycle().take(sources.len()).collect()
}
