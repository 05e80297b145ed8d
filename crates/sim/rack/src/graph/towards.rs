//! Shortest paths to one node, and the choice among them for a flow.

use super::Graph;

/// Shortest paths to one node.
#[derive(Debug, Clone, Copy)]
pub struct Towards<'a> {
    graph: &'a Graph,
    dst: u32,
}

impl<'a> Towards<'a> {
    /// Creates the set of shortest paths to `dst`.
    pub fn new(graph: &'a Graph, dst: u32) -> Towards<'a> {
        Towards { graph, dst }
    }

    /// Returns the links of a node that lead closer to the destination, in the order of ports.
    pub fn closer(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        let ports = self.graph.closer(node, self.dst);
        let links = self.graph.links_of(node);
        links.enumerate().filter(move |(port, _)| ports >> port & 1 == 1).map(|(_, link)| link)
    }

    /// Returns the link that a flow with this hash takes, among the links of [`Towards::closer`].
    pub fn by_hash(&self, node: u32, flow: u32) -> u32 {
        let count = self.closer(node).count();
        let turn = scramble(flow ^ node.wrapping_mul(0x9E37_79B9)) as usize % count;
        self.closer(node).nth(turn).expect("a node that is not there has a way on")
    }
}

/// Finalizer of MurmurHash3.
fn scramble(mut hash: u32) -> u32 {
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}
