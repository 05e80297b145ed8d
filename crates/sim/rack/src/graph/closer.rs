//! Links of a node that lead closer to another node.

use super::{Cube, Graph};
use std::fmt;
use std::sync::OnceLock;

/// Cache for graphs without coordinates. For each destination that was requested, it holds the distances of all nodes,
/// in two bytes each.
#[derive(Clone)]
pub(super) struct Distances(Box<[OnceLock<Box<[u16]>>]>);

impl Distances {
    /// Creates an empty cache.
    pub(super) fn new(nodes: usize) -> Distances {
        Distances((0..nodes).map(|_| OnceLock::new()).collect())
    }
}

impl fmt::Debug for Distances {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Distances").finish_non_exhaustive()
    }
}

/// Two caches are always equal, because distances follow from the links of the graph.
impl PartialEq for Distances {
    fn eq(&self, _other: &Distances) -> bool {
        true
    }
}
impl Eq for Distances {}

impl Graph {
    /// Returns the number of hops from one node to another.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        match &self.cube {
            Some(cube) => cube.distance(from, to),
            None => u32::from(self.distances(to)[from as usize]),
        }
    }

    /// Returns the ports through which shortest paths lead from `node` to another node, as one bit per port.
    pub fn closer(&self, node: u32, to: u32) -> u8 {
        if let Some(cube) = &self.cube {
            return cube.closer(node, to);
        }
        let distances = self.distances(to);
        let here = distances[node as usize];
        let ports = self.links_of(node).enumerate();
        let closer = ports.filter(|(_, link)| distances[self.to(*link) as usize] < here);
        closer.fold(0, |ports, (port, _)| ports | 1 << port)
    }

    fn distances(&self, to: u32) -> &[u16] {
        self.distances.0[to as usize].get_or_init(|| self.distances_to(to).into())
    }
}

impl Cube {
    fn closer(&self, node: u32, to: u32) -> u8 {
        let (mut ports, mut next) = (0, 0);
        for dimension in 0..self.dimensions() {
            let [at, end] = [node, to].map(|node| self.coordinate(node, dimension));
            let hops = self.hops(dimension, at, end);
            let least = hops.into_iter().flatten().min();
            for (hops, has) in hops.into_iter().zip(self.neighbours(dimension, at)) {
                if at != end && hops == least {
                    ports |= 1 << next;
                }
                next += u32::from(has);
            }
        }
        ports
    }

    /// Returns whether a coordinate has a neighbour above it, and one below it, in a dimension.
    fn neighbours(&self, dimension: usize, at: u32) -> [bool; 2] {
        match self.side(dimension) {
            1 => [false, false],
            2 => [true, false],
            side => [self.wraps || at + 1 < side, self.wraps || at > 0],
        }
    }
}
