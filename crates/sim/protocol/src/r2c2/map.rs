//! Topology as nodes know it: the links that are not known to be down, and the routes, broadcast trees and link shares that these links
//! allow.
//!
//! If links are down, the remaining links and the remaining ports of each node are renumbered from 0. Rates and weights use the new
//! numbers, not those of the whole rack.

use super::Routing;
use super::packet::Route;
use super::routing::{MOST_HOPS, Router};
use super::trees::Trees;
use super::weights::{FlowPaths, Weights};
use std::sync::Arc;
use unrack_rack::graph::{FAR, Graph};

/// Routes, broadcast trees and link shares of flows in a rack without its failed links.
pub struct RackMap {
    whole: Arc<Graph>,
    graph: Arc<Graph>,
    /// For each link of `graph`, the number that the link has in the whole rack. `None` if no link is down, because the numbers are then
    /// the same.
    links: Option<Vec<u32>>,
    /// Connected component of each node. A component is identified by the smallest number of its nodes.
    part: Vec<u32>,
    /// Whether the longest of the shortest paths between nodes fits into the route field of a packet.
    is_short: bool,
    trees: Trees,
    router: Router,
    pub weights: Weights,
}

impl RackMap {
    /// Creates the map of a rack whose links are all up, with `trees` broadcast trees for each source.
    pub fn whole(whole: &Arc<Graph>, trees: u8) -> RackMap {
        RackMap::new(whole, whole.clone(), None, trees)
    }

    /// Returns the map of the rack without the links for which `down` returns `true`.
    pub fn without(&self, down: impl Fn(u32) -> bool) -> RackMap {
        let trees = self.trees.count();
        if !(0..self.whole.links()).any(&down) {
            return RackMap::whole(&self.whole, trees);
        }
        let (left, links) = self.whole.without(down);
        RackMap::new(&self.whole, Arc::new(left), Some(links), trees)
    }

    fn new(whole: &Arc<Graph>, graph: Arc<Graph>, links: Option<Vec<u32>>, trees: u8) -> RackMap {
        RackMap {
            part: parts(&graph),
            is_short: Routing::Spraying.check(&graph).is_ok(),
            trees: Trees::new(graph.clone(), trees),
            router: Router::new(graph.clone()),
            weights: Weights::new(graph.clone()),
            whole: whole.clone(),
            graph,
            links,
        }
    }

    /// Returns the links that are not down, with their numbers in the whole rack.
    pub fn links(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.graph.links()).map(|link| self.in_whole(link))
    }

    fn in_whole(&self, link: u32) -> u32 {
        self.links.as_ref().map_or(link, |links| links[link as usize])
    }

    /// Returns whether there is a route from `src` to `dst` that fits into a packet.
    pub fn leads(&self, src: u32, dst: u32) -> bool {
        let fits = || u32::from(self.graph.distances_to(dst)[src as usize]) <= MOST_HOPS;
        self.part[src as usize] == self.part[dst as usize] && (self.is_short || fits())
    }

    /// Returns `routing` if the remaining links allow it, and spraying otherwise. Some routings need the regular dimensions of a torus,
    /// which a torus with failed links lacks, and some need paths to all nodes.
    pub fn usable(&self, routing: Routing) -> Routing {
        let is_usable = match (&self.links, routing) {
            (None, _) => true,
            (Some(_), Routing::Vlb) => {
                self.part.iter().all(|part| *part == 0) && routing.check(&self.graph).is_ok()
            }
            (Some(_), Routing::Wlb | Routing::Romm) => false,
            (Some(_), Routing::Spraying | Routing::DestinationTag | Routing::Ecmp) => true,
        };
        if is_usable { routing } else { Routing::Spraying }
    }

    /// Randomly chooses a route for a packet among the paths of its flow. Returns `None` if no path leads to the destination.
    pub fn draw(&mut self, ways: FlowPaths, random: &mut impl FnMut() -> u64) -> Option<Route> {
        if !self.leads(ways.src, ways.dst) {
            return None;
        }
        let route = self.router.draw(ways, random);
        if self.links.is_none() {
            return Some(route);
        }
        let mut at = ways.src;
        let mut in_whole = Route::default();
        for port in (0..route.hops()).filter_map(|hop| route.port(hop)) {
            let link = self.graph.links_of(at).start + port;
            in_whole.push(self.whole.port(self.in_whole(link)));
            at = self.graph.to(link);
        }
        Some(in_whole)
    }

    /// Returns the links by which `node` forwards a broadcast that node `src` sent along the tree `tree`. The links have their numbers in
    /// the whole rack.
    pub fn onward(&mut self, node: u32, src: u32, tree: u8) -> impl Iterator<Item = u32> + use<> {
        let mask = self.trees.ports(node, src, tree);
        let first = self.graph.links_of(node).start;
        let links =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|port| (mask >> port & 1 == 1).then(|| self.in_whole(first + port)));
        links.into_iter().flatten()
    }
}

fn parts(graph: &Graph) -> Vec<u32> {
    let mut parts = vec![u32::MAX; graph.nodes() as usize];
    for node in 0..graph.nodes() {
        if parts[node as usize] == u32::MAX {
            let reached = graph.distances_to(node).into_iter().enumerate().filter(|(_, far)| *far < FAR);
            reached.for_each(|(reached, _)| parts[reached] = node);
        }
    }
    parts
}
