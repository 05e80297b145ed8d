//! Selection of other routings for flows in progress (§3.4). Once per period, one of the nodes in turn searches for the best routings that
//! it can find, and announces them. The search takes no simulated time.

use super::rack::Rack;
use unrack_basis::{SplitMix64, mix};
use unrack_protocol::r2c2::packet::{Assignment, Broadcast};
use unrack_protocol::r2c2::selection::SelectionProblem;

/// Searches of all nodes.
pub(super) struct Searches {
    /// Number of searches so far.
    made: u32,
    /// Random numbers of the search. They are separate from those of packets, so that packets take the same paths as in a run without
    /// searches.
    random: SplitMix64,
}

/// Constant that makes the random numbers of the search differ from those of packets.
const SEARCH: u64 = 0x5EA2_C4E2;

impl Searches {
    pub(super) fn new(seed: u64) -> Searches {
        Searches { made: 0, random: SplitMix64::new(mix(seed ^ SEARCH)).after(1) }
    }

    /// Returns the node, among `nodes` nodes, whose turn it is to search.
    pub(super) fn next_of(&mut self, nodes: u32) -> u32 {
        let node = self.made % nodes;
        self.made += 1;
        node
    }

    /// Returns the flows that should take other paths, with their routings, given the flows that a node knows of. Returns none if the
    /// search finds no better routings.
    pub(super) fn better(&mut self, rack: &mut Rack, told: Vec<Broadcast>) -> Vec<Assignment> {
        let Rack { setup, map, empty, .. } = rack;
        let Some(selection) = &setup.params.selection else { return Vec::new() };
        let problem = SelectionProblem::new(selection, map, empty.clone(), told);
        problem.map_or(Vec::new(), |problem| problem.solve(&mut || self.random.next_u64()))
    }
}
