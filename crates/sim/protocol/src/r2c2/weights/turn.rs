//! Symmetries of a torus. A symmetry converts the link shares of a flow that starts at node 0 to those of a flow between another pair of
//! nodes.

use super::LinkShare;
use std::sync::Arc;
use unrack_rack::graph::{CubeStep, Graph};

/// Maximum number of dimensions of a graph. No graph has more, because a node has at most eight ports.
const MOST: usize = 8;

/// Table of the coordinates and ports of the links of a torus. The table avoids divisions, which are slow.
#[derive(Debug, Clone)]
pub(super) struct Torus {
    ports: u32,
    axes: Vec<TorusAxis>,
    /// Sum of the sides of all dimensions.
    coordinates: usize,
    /// Direction of each port, by port.
    directions: Vec<CubeStep>,
    /// For each link, the coordinates of the node at which the link begins, and the link's port at this node. A coordinate is stored as its
    /// index in `PairSymmetry::moved`.
    places: Vec<([u16; MOST], u8)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct TorusAxis {
    side: u32,
    stride: u32,
}

/// Reflection and translation that map node 0 to the first node of a pair.
pub(super) struct PairSymmetry {
    like: u32,
    /// For each coordinate of a node, its contribution to the number of the node to which the symmetry maps this node. The first entry
    /// is 0. The others are ordered by dimension, and within a dimension by coordinate.
    moved: Vec<u32>,
    /// For each port of node 0, the port to which the symmetry maps it.
    ports: [u8; 8],
}

impl PairSymmetry {
    /// Returns the node whose position relative to node 0 is that of the pair's second node relative to the pair's first node.
    pub(super) fn like(&self) -> u32 {
        self.like
    }
}

impl Torus {
    /// Returns the tables of a graph, or `None` if it is not a torus.
    pub(super) fn new(graph: &Graph) -> Option<Torus> {
        let cube = graph.as_cube().filter(|cube| cube.is_torus())?;
        let coordinates: u32 = (0..cube.dimensions()).map(|dimension| cube.side(dimension)).sum();
        // A ring whose coordinates do not fit into 16 bits is not supported. Its routes would be far too long for
        // packets anyway.
        u16::try_from(coordinates).ok()?;
        let axis = |dimension| TorusAxis { side: cube.side(dimension), stride: cube.stride(dimension) };
        let place = |link| {
            let (mut at, mut before) = ([0; MOST], 1);
            for (dimension, at) in at.iter_mut().enumerate().take(cube.dimensions()) {
                *at = (before + cube.coordinate(graph.from(link), dimension)) as u16;
                before += cube.side(dimension);
            }
            (at, graph.port(link) as u8)
        };
        Some(Torus {
            ports: graph.links_of(0).len() as u32,
            axes: (0..cube.dimensions()).map(axis).collect(),
            coordinates: coordinates as usize,
            directions: cube.directions().collect(),
            places: (0..graph.links()).map(place).collect(),
        })
    }

    /// Returns the symmetry that maps paths starting at node 0 to paths from `src` to `dst`.
    pub(super) fn turn(&self, src: u32, dst: u32) -> PairSymmetry {
        let mut turn =
            PairSymmetry { like: 0, moved: Vec::with_capacity(1 + self.coordinates), ports: [0; 8] };
        turn.moved.push(0);
        let mut are_flipped = [false; MOST];
        for (TorusAxis { side, stride }, is_flipped) in self.axes.iter().zip(&mut are_flipped) {
            let from = src / stride % side;
            let apart = (dst / stride % side + side - from) % side;
            *is_flipped = apart > side - apart;
            turn.like += apart.min(side - apart) * stride;
            let moved = |at| (if *is_flipped { from + side - at } else { from + at }) % side * stride;
            turn.moved.extend((0..*side).map(moved));
        }
        for (port, CubeStep { dimension, up }) in self.directions.iter().enumerate() {
            let up = *up != (are_flipped[*dimension] && self.axes[*dimension].side > 2);
            let other = self.directions.iter().position(|d| *d == CubeStep { dimension: *dimension, up });
            turn.ports[port] = other.expect("both ways of a ring have a port") as u8;
        }
        turn
    }

    /// Returns the same shares, with each link replaced by the link to which the symmetry maps it.
    pub(super) fn turned(&self, turn: &PairSymmetry, shares: &[LinkShare]) -> Arc<[LinkShare]> {
        // Three dimensions suffice for most racks. The coordinates in unused dimensions are 0.
        match self.axes.len() {
            ..=3 => shares.iter().map(|share| self.moved::<3>(turn, *share)).collect(),
            _ => shares.iter().map(|share| self.moved::<MOST>(turn, *share)).collect(),
        }
    }

    fn moved<const AXES: usize>(
        &self,
        turn: &PairSymmetry,
        LinkShare { link, share }: LinkShare,
    ) -> LinkShare {
        let (at, port) = &self.places[link as usize];
        let node: u32 = at[..AXES].iter().map(|at| turn.moved[usize::from(*at)]).sum();
        LinkShare { link: node * self.ports + u32::from(turn.ports[usize::from(*port)]), share }
    }
}
