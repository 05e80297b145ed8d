//! R2C2 fig. 2: share of the bisection's capacity that each routing carries, computed from the exact loads of links.
//!
//! A traffic pattern is a matrix of the shares that nodes send to each other; each node sends one unit in total. The
//! throughput is limited by the most loaded link. The bisection's capacity is one unit per node on an 8-ary 2-cube, which
//! uniform traffic loads evenly (Dally and Towles §3.3). The worst case is searched among all permutations, which is enough
//! because every pattern is a mixture of permutations. It is, for one link of each direction, the assignment of destinations
//! to sources that loads the link most (Towles and Dally, SPAA 2002).

use super::assignment::heaviest;
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::weights::{Exact, LinkLoads};
use unrack_rack::graph::{Graph, Sides};

const SIDE: u32 = 8;
const NODES: u32 = SIDE * SIDE;

pub(super) const ROUTINGS: [Routing; 5] =
    [Routing::Spraying, Routing::Romm, Routing::DestinationTag, Routing::Vlb, Routing::Wlb];

/// Returns the share of the capacity for each routing and pattern.
pub(super) fn all() -> Vec<(Routing, &'static str, f64)> {
    let graph = Graph::cube(Sides::new(&[SIDE; 2]).expect("two sides"), true).expect("a torus");
    let of = |routing| {
        let table = Table::new(&graph, routing);
        let share = |pattern: &TrafficPattern| 1.0 / table.most_loaded(*pattern);
        let mut shares: Vec<_> =
            PATTERNS.iter().map(|(name, pattern)| (routing, *name, share(pattern))).collect();
        shares.push((routing, "worst_case", 1.0 / table.worst()));
        shares
    };
    ROUTINGS.into_iter().flat_map(of).collect()
}

/// A traffic pattern: returns the share of the source's unit that goes to the destination.
type TrafficPattern = fn(u32, u32) -> f64;

const PATTERNS: [(&str, TrafficPattern); 5] = [
    ("nearest_neighbor", |src, dst| {
        let apart = |a: u32, b: u32| (a + SIDE - b) % SIDE;
        let (x, y) = (apart(dst / SIDE, src / SIDE), apart(dst % SIDE, src % SIDE));
        if [(0, 1), (1, 0), (0, SIDE - 1), (SIDE - 1, 0)].contains(&(x, y)) { 0.25 } else { 0.0 }
    }),
    ("uniform", |_, _| 1.0 / NODES as f64),
    ("bit_complement", |src, dst| one(dst == NODES - 1 - src)),
    ("transpose", |src, dst| one(dst == src % SIDE * SIDE + src / SIDE)),
    ("tornado", |src, dst| one(dst == src / SIDE * SIDE + (src % SIDE + SIDE / 2 - 1) % SIDE)),
];

fn one(truth: bool) -> f64 {
    f64::from(u8::from(truth))
}

/// Load of each link if a source sends one unit to a destination, by link, source and destination.
struct Table {
    links: u32,
    of: Vec<f64>,
}

impl Table {
    fn new(graph: &Graph, routing: Routing) -> Table {
        let (mut loads, mut exact) = (LinkLoads::new(graph), Exact::new(graph));
        let mut table =
            Table { links: graph.links(), of: vec![0.0; (graph.links() * NODES * NODES) as usize] };
        for src in 0..NODES {
            for dst in 0..NODES {
                exact.add(routing, (src, dst), 0, 1.0, &mut loads);
                for link in loads.used().to_vec() {
                    table.of[((link * NODES + src) * NODES + dst) as usize] = loads.on_link(link);
                }
                loads.clear();
            }
        }
        table
    }

    fn of_link(&self, link: u32) -> &[f64] {
        let size = (NODES * NODES) as usize;
        &self.of[link as usize * size..][..size]
    }

    fn most_loaded(&self, pattern: impl Fn(u32, u32) -> f64) -> f64 {
        let load = |link| {
            let loads = self.of_link(link).iter().enumerate();
            loads.map(|(n, load)| load * pattern(n as u32 / NODES, n as u32 % NODES)).sum::<f64>()
        };
        (0..self.links).map(load).fold(0.0, f64::max)
    }

    /// Returns the load of the most loaded link under the worst pattern. The torus is symmetric, so it is enough to check the
    /// links of one node.
    fn worst(&self) -> f64 {
        let degree = self.links / NODES;
        (0..degree).map(|link| heaviest(self.of_link(link), NODES as usize)).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
