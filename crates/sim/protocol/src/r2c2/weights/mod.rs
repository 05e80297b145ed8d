//! Shares of a flow on each link (§3.3.1), computed exactly and cached. A share is the fraction of the flow's traffic that crosses the
//! link.
//!
//! A torus is symmetric: its nodes are interchangeable, and so are the two directions of a dimension. Therefore the cached shares of one
//! pair of nodes serve all pairs that are equally far apart in each dimension; they are reflected and translated on demand. On a torus of
//! 8x8x8 nodes, 125 entries serve 262,144 pairs. On other graphs, each pair is cached separately. The cache of each routing has a maximum
//! size, and is emptied when it reaches this size.

pub mod exact;
mod turn;

pub use exact::{Exact, LinkLoads};

use self::turn::Torus;
use crate::r2c2::Routing;
use std::collections::HashMap;
use std::sync::Arc;
use unrack_rack::graph::{FAR, Graph};

/// A link, and the share of a flow's traffic that crosses this link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkShare {
    pub link: u32,
    /// Share of the flow's traffic, in units of [`LinkShare::ONE`]. The maximum is two units, because some routings have paths that cross a
    /// link twice.
    pub share: u32,
}

impl LinkShare {
    /// Share of a flow on a link that each of its packets crosses exactly once.
    pub const ONE: u32 = 1 << 30;
}

/// Routing and ends of a flow, which determine its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowPaths {
    pub routing: Routing,
    pub src: u32,
    pub dst: u32,
    /// Hash of the flow, which ECMP uses to choose among paths.
    pub flow: u32,
}

/// Maximum number of bytes cached for one routing (§4.2: "less than 6 MB").
const MOST_BYTES: usize = 6_000_000;

/// Cache of the shares of all flows of a graph.
#[derive(Debug, Clone)]
pub struct Weights {
    graph: Arc<Graph>,
    torus: Option<Torus>,
    kept: Vec<KeptWeights>,
    /// For each source node, the load on every link if the node sends one unit in equal parts to all nodes by spraying. This is the first
    /// phase of Valiant's routing.
    spread: HashMap<u32, Arc<[f32]>>,
}

#[derive(Debug, Clone, Default)]
struct KeptWeights {
    shares: HashMap<u64, Arc<[LinkShare]>>,
    bytes: usize,
}

impl Weights {
    /// Creates an empty cache for a graph.
    pub fn new(graph: Arc<Graph>) -> Weights {
        let torus = Torus::new(&graph);
        Weights {
            graph,
            torus,
            kept: vec![KeptWeights::default(); Routing::ALL.len()],
            spread: HashMap::new(),
        }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the number of bytes of memory that the cache of a routing takes.
    pub fn bytes(&self, routing: Routing) -> usize {
        let spread = if routing == Routing::Vlb { self.spread.len() } else { 0 };
        self.kept[usize::from(routing.code())].bytes + spread * self.graph.links() as usize * 4
    }

    /// Returns the shares of a flow. Each link that the flow may cross occurs once, in no particular order. The list is empty if no path
    /// leads to the destination.
    pub fn shares(&mut self, ways: FlowPaths) -> Arc<[LinkShare]> {
        let FlowPaths { routing, src, dst, .. } = ways;
        if src == dst {
            return Arc::default();
        }
        let turn = match &self.torus {
            Some(torus) if routing != Routing::Ecmp => torus.turn(src, dst),
            // The shares of ECMP are not cached, because they are quick to compute and rarely needed a second time.
            _ if routing == Routing::Ecmp => return self.computed(ways),
            _ => return self.kept(ways),
        };
        let kept = self.kept(FlowPaths { src: 0, dst: turn.like(), ..ways });
        self.torus.as_ref().expect("it gave the turn").turned(&turn, &kept)
    }

    fn kept(&mut self, ways: FlowPaths) -> Arc<[LinkShare]> {
        let key = u64::from(ways.src) << 32 | u64::from(ways.dst);
        let routing = usize::from(ways.routing.code());
        if let Some(shares) = self.kept[routing].shares.get(&key) {
            return shares.clone();
        }
        let shares = self.computed(ways);
        let bytes = size_of_val(&*shares);
        if self.bytes(ways.routing) + bytes > MOST_BYTES {
            self.kept[routing] = KeptWeights::default();
        }
        self.kept[routing].bytes += bytes;
        self.kept[routing].shares.insert(key, shares.clone());
        shares
    }

    fn computed(&mut self, ways: FlowPaths) -> Arc<[LinkShare]> {
        if self.graph.as_cube().is_none() && self.graph.distances_to(ways.dst)[ways.src as usize] == FAR {
            return Arc::default();
        }
        if ways.routing == Routing::Vlb {
            return self.valiant(ways.src, ways.dst);
        }
        let graph = self.graph.clone();
        let mut loads = LinkLoads::new(&graph);
        Exact::new(&graph).add(ways.routing, (ways.src, ways.dst), ways.flow, 1.0, &mut loads);
        let links = loads.used().to_vec();
        links.into_iter().filter_map(|link| share(link, loads.on_link(link))).collect()
    }

    /// Returns the shares of Valiant's routing. They are the sum of the loads of spraying from the source to all nodes and, by symmetry,
    /// from all nodes to the destination.
    fn valiant(&mut self, src: u32, dst: u32) -> Arc<[LinkShare]> {
        let (from, to) = (self.spread_from(src), self.spread_from(dst));
        let load = |link: u32| from[link as usize] + to[self.graph.reverse(link) as usize];
        (0..self.graph.links()).filter_map(|link| share(link, f64::from(load(link)))).collect()
    }

    fn spread_from(&mut self, src: u32) -> Arc<[f32]> {
        if let Some(spread) = self.spread.get(&src) {
            return spread.clone();
        }
        let graph = self.graph.clone();
        let (mut loads, mut exact) = (LinkLoads::new(&graph), Exact::new(&graph));
        for middle in 0..graph.nodes() {
            exact.add(Routing::Spraying, (src, middle), 0, 1.0 / f64::from(graph.nodes()), &mut loads);
        }
        let spread: Arc<[f32]> = (0..graph.links()).map(|link| loads.on_link(link) as f32).collect();
        if (self.spread.len() + 1) * size_of_val(&*spread) > MOST_BYTES {
            self.spread.clear();
        }
        self.spread.insert(src, spread.clone());
        spread
    }
}

fn share(link: u32, load: f64) -> Option<LinkShare> {
    debug_assert!(load <= 2.0 + 1e-6, "a way comes by a link at most twice");
    let share = (load * f64::from(LinkShare::ONE)).round() as u32;
    (share > 0).then_some(LinkShare { link, share })
}

#[cfg(test)]
mod tests;
