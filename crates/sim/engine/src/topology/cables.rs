//! Links between nodes that forward for each other, in a network whose links differ.

use crate::link::{Link, Pace};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{Arc, OnceLock};
use unrack_rack::graph::Graph;
use unrack_units::{Rate, Time};

/// Properties of each link between nodes.
#[derive(Debug)]
pub(super) struct Cables {
    graph: Arc<Graph>,
    /// Links by number in the graph.
    links: Box<[Link]>,
    /// Pace of all links of each node together, equal for sending and for receiving.
    all: Box<[Pace]>,
    /// For each destination, the least propagation from every node to it, over any links. It is computed at the first
    /// request.
    nearest: Box<[OnceLock<Box<[Time]>>]>,
}

impl PartialEq for Cables {
    fn eq(&self, other: &Cables) -> bool {
        self.graph == other.graph && self.links == other.links
    }
}
impl Eq for Cables {}

impl Cables {
    /// Creates the links of a graph. `cables` are ordered by the number of the cable ([`Graph::cable`]).
    pub(super) fn new(graph: Arc<Graph>, cables: &[Link]) -> Cables {
        let links: Box<[Link]> = (0..graph.links()).map(|link| cables[graph.cable(link) as usize]).collect();
        let all = (0..graph.nodes()).map(|node| {
            let own = graph.links_of(node).map(|link| links[link as usize].pace.rate().as_bps());
            Pace::new(Rate::from_bps(own.sum()))
        });
        let all = all.collect();
        let nearest = (0..graph.nodes()).map(|_| OnceLock::new()).collect();
        Cables { graph, links, all, nearest }
    }

    /// Returns a link by its number in the graph.
    #[inline]
    pub(super) fn link(&self, link: u32) -> Link {
        self.links[link as usize]
    }

    /// Returns the pace of all links of a node together.
    pub(super) fn all_of(&self, node: u32) -> Pace {
        self.all[node as usize]
    }

    /// Returns the least propagation from one node to another.
    pub(super) fn nearest(&self, src: u32, dst: u32) -> Time {
        self.nearest[dst as usize].get_or_init(|| self.search(dst))[src as usize]
    }

    /// Computes the least propagation from each node to `dst` (Dijkstra).
    fn search(&self, dst: u32) -> Box<[Time]> {
        let mut nearest = vec![Time::MAX; self.graph.nodes() as usize];
        let mut reached = BinaryHeap::from([Reverse((Time::ZERO, dst))]);
        while let Some(Reverse((time, node))) = reached.pop() {
            if nearest[node as usize] <= time {
                continue;
            }
            nearest[node as usize] = time;
            for link in self.graph.links_of(node) {
                reached.push(Reverse((time + self.link(link).propagation, self.graph.to(link))));
            }
        }
        nearest.into()
    }

    /// Returns the highest rate and the least propagation of any link on the shortest paths between two nodes.
    pub(super) fn best(&self, src: u32, dst: u32) -> Link {
        let (mut seen, mut nodes) = (BTreeSet::from([src]), vec![src]);
        let mut best: Option<Link> = None;
        while let Some(node) = nodes.pop() {
            let ports = self.graph.closer(node, dst);
            let links = self.graph.links_of(node).enumerate();
            for (_, link) in links.filter(|(port, _)| ports >> port & 1 == 1) {
                let Link { pace, propagation } = self.link(link);
                best = Some(best.map_or(Link { pace, propagation }, |best| Link {
                    pace: if pace.rate() > best.pace.rate() { pace } else { best.pace },
                    propagation: propagation.min(best.propagation),
                }));
                let to = self.graph.to(link);
                if seen.insert(to) {
                    nodes.push(to);
                }
            }
        }
        best.expect("different nodes are linked")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances in a square with one slow side and one long side.
    #[test]
    fn ways_are_measured_by_their_links() {
        let link = |gbps, ns| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) };
        let graph = Arc::new(Graph::of_cables(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]).unwrap());
        let cables = Cables::new(graph, &[link(10, 100), link(40, 100), link(10, 900), link(1, 50)]);
        assert_eq!((cables.nearest(0, 2), cables.nearest(2, 0)), (Time::from_ns(200), Time::from_ns(200)));
        // From 2 to 3 the direct link is the longest path.
        assert_eq!(cables.nearest(2, 3), Time::from_ns(250));
        assert_eq!([0, 1].map(|node| cables.all_of(node).rate()), [Rate::from_gbps(11), Rate::from_gbps(50)]);
        assert_eq!(cables.best(0, 2), link(40, 50));
        assert_eq!(cables.best(2, 3), link(10, 900));
    }
}
