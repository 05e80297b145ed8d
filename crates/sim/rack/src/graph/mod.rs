//! Racks without switches, whose nodes forward for each other over direct links.
//!
//! A [`Graph`] numbers the two directions of every cable as separate links. The links that leave a node have
//! consecutive numbers, and the index of a link among them is its *port*. Tori and meshes also have coordinates
//! ([`Cube`]).

mod closer;
mod cube;
pub mod list;
mod towards;

use closer::Distances;
pub use cube::{Cube, CubeStep, Sides};
pub use towards::Towards;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Largest number of links that leave a node, because a hop of a source route has three bits (R2C2 §4.2).
pub const MOST_PORTS: u32 = 8;
/// Largest number of nodes, because addresses have 16 bits (R2C2 §4.2).
pub const MOST_NODES: u32 = 1 << 16;

/// Nodes and the links between them. The graph is connected, unless links were removed ([`Graph::without`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// First link of each node, by node, followed by the number of links.
    first: Vec<u32>,
    /// Receiving node of each link, by link.
    to: Vec<u32>,
    /// Sending node of each link, by link.
    from: Vec<u32>,
    /// Opposite direction of the cable of each link, by link.
    reverse: Vec<u32>,
    /// Number of the cable of each link, by link. Cables are numbered as in the list from which the graph was built.
    cable: Vec<u32>,
    cube: Option<Cube>,
    distances: Distances,
}

impl Graph {
    /// Builds a graph from cables between nodes.
    ///
    /// # Errors
    /// If the graph is not connected, a node has more than [`MOST_PORTS`] cables, or two cables connect the same nodes.
    pub fn of_cables(nodes: u32, cables: &[(u32, u32)]) -> Result<Graph, GraphError> {
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(GraphError::Nodes(nodes));
        }
        let mut seen = BTreeMap::new();
        let mut degrees = vec![0; nodes as usize];
        for (number, &(a, b)) in cables.iter().enumerate() {
            if let Some(node) = [a, b].into_iter().find(|node| *node >= nodes) {
                return Err(GraphError::NoSuchNode { cable: number, node });
            }
            if a == b {
                return Err(GraphError::Loop { cable: number, node: a });
            }
            if seen.insert((a.min(b), a.max(b)), number).is_some() {
                return Err(GraphError::Twice { cable: number });
            }
            for node in [a, b] {
                degrees[node as usize] += 1;
                if degrees[node as usize] > MOST_PORTS {
                    return Err(GraphError::Degree { cable: number, node });
                }
            }
        }
        let graph = Graph::wired(&degrees, cables);
        match graph.distances_to(0).iter().position(|distance| *distance == FAR) {
            Some(node) => Err(GraphError::Apart { node: node as u32 }),
            None => Ok(graph),
        }
    }

    fn wired(degrees: &[u32], cables: &[(u32, u32)]) -> Graph {
        let mut first = vec![0];
        first.extend(degrees.iter().scan(0, |end, degree| {
            *end += degree;
            Some(*end)
        }));
        let links = 2 * cables.len();
        let (mut to, mut from, mut reverse, mut cable) =
            (vec![0; links], vec![0; links], vec![0; links], vec![0; links]);
        let mut next = first.clone();
        for (number, &(a, b)) in cables.iter().enumerate() {
            let [there, back] = [a, b].map(|node| {
                next[node as usize] += 1;
                next[node as usize] - 1
            });
            for (link, ends, other) in [(there, (a, b), back), (back, (b, a), there)] {
                (from[link as usize], to[link as usize]) = ends;
                reverse[link as usize] = other;
                cable[link as usize] = number as u32;
            }
        }
        let distances = Distances::new(degrees.len());
        Graph { first, to, from, reverse, cable, cube: None, distances }
    }

    /// Builds a k-ary n-cube: a torus if it wraps, otherwise a mesh. A ring of two nodes has one cable.
    ///
    /// # Errors
    /// If the cube has fewer than two nodes, more than [`MOST_NODES`], or nodes with more than [`MOST_PORTS`] cables.
    pub fn cube(sides: Sides, wraps: bool) -> Result<Graph, GraphError> {
        let cube = Cube::new(sides, wraps)?;
        let graph = Graph::of_cables(cube.nodes(), &cube.cables())?;
        Ok(graph.in_order_of(cube))
    }

    /// Renumbers the ports by dimension, up before down. The order of the cables does not give this numbering.
    fn in_order_of(mut self, cube: Cube) -> Graph {
        let old = self.clone();
        let mut place_of = vec![0; old.to.len()];
        for node in 0..old.nodes() {
            let neighbours = cube.directions().filter_map(|direction| cube.step(node, direction));
            for (link, neighbour) in old.links_of(node).zip(neighbours) {
                let was = old.link_to(node, neighbour).expect("a neighbour is at the end of a cable");
                place_of[was as usize] = link;
            }
        }
        for (was, link) in place_of.iter().map(|link| *link as usize).enumerate() {
            (self.to[link], self.from[link]) = (old.to[was], old.from[was]);
            self.reverse[link] = place_of[old.reverse[was] as usize];
            self.cable[link] = old.cable[was];
        }
        Graph { cube: Some(cube), ..self }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Returns the number of links, which counts both directions of all cables.
    pub fn links(&self) -> u32 {
        self.to.len() as u32
    }

    /// Returns the links that leave a node, by port.
    pub fn links_of(&self, node: u32) -> Range<u32> {
        self.first[node as usize]..self.first[node as usize + 1]
    }

    /// Returns the node to which a link leads.
    pub fn to(&self, link: u32) -> u32 {
        self.to[link as usize]
    }

    /// Returns the node that sends on a link.
    pub fn from(&self, link: u32) -> u32 {
        self.from[link as usize]
    }

    /// Returns the opposite direction of the same cable.
    pub fn reverse(&self, link: u32) -> u32 {
        self.reverse[link as usize]
    }

    /// Returns the number of the cable of a link, in the list from which the graph was built.
    pub fn cable(&self, link: u32) -> u32 {
        self.cable[link as usize]
    }

    /// Returns the port of a link: its index among the links of its node.
    pub fn port(&self, link: u32) -> u32 {
        link - self.first[self.from(link) as usize]
    }

    /// Returns the link from a node to its neighbour; `None` if they are not linked.
    pub fn link_to(&self, node: u32, neighbour: u32) -> Option<u32> {
        self.links_of(node).find(|link| self.to(*link) == neighbour)
    }

    /// Returns the coordinates, if the graph is a torus or a mesh.
    pub fn as_cube(&self) -> Option<&Cube> {
        self.cube.as_ref()
    }

    /// Returns the number of hops from every node to this one; [`FAR`] for nodes without a path.
    pub fn distances_to(&self, node: u32) -> Vec<u16> {
        let mut distances = vec![FAR; self.nodes() as usize];
        distances[node as usize] = 0;
        let mut reached = vec![node];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            next += 1;
            for link in self.links_of(at) {
                let neighbour = self.to(link) as usize;
                if distances[neighbour] == FAR {
                    distances[neighbour] = distances[at as usize] + 1;
                    reached.push(neighbour as u32);
                }
            }
        }
        distances
    }

    /// Returns the number of hops between the two connected nodes that are furthest apart.
    pub fn diameter(&self) -> u32 {
        match &self.cube {
            Some(cube) => cube.diameter(),
            None => {
                let furthest = |node| self.distances_to(node).into_iter().filter(|far| *far < FAR).max();
                u32::from((0..self.nodes()).filter_map(furthest).max().unwrap_or(0))
            }
        }
    }

    /// Returns the graph without the links that `down` selects and without their opposite directions. The result may be
    /// disconnected. Also returns the former number of each remaining link, by link.
    pub fn without(&self, down: impl Fn(u32) -> bool) -> (Graph, Vec<u32>) {
        let is_left = |link: &u32| {
            let back = self.reverse(*link);
            *link < back && !down(*link) && !down(back)
        };
        let cables: Vec<_> =
            (0..self.links()).filter(is_left).map(|link| (self.from(link), self.to(link))).collect();
        let mut degrees = vec![0; self.nodes() as usize];
        cables.iter().flat_map(|(a, b)| [a, b]).for_each(|node| degrees[*node as usize] += 1);
        let left = Graph::wired(&degrees, &cables);
        let was = |link| self.link_to(left.from(link), left.to(link)).expect("a link that was there before");
        let links = (0..left.links()).map(was).collect();
        (left, links)
    }
}

/// Distance between nodes that have no path.
pub const FAR: u16 = u16::MAX;

/// Reason why cables do not form a valid graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphError {
    Nodes(u32),
    /// A cable ends at a node that does not exist. Cables are numbered from 0.
    NoSuchNode {
        cable: usize,
        node: u32,
    },
    Loop {
        cable: usize,
        node: u32,
    },
    Twice {
        cable: usize,
    },
    Degree {
        cable: usize,
        node: u32,
    },
    Apart {
        node: u32,
    },
    Sides,
}

impl GraphError {
    /// Returns the number of the faulty cable, if the error concerns a cable.
    pub fn cable(&self) -> Option<usize> {
        match *self {
            GraphError::NoSuchNode { cable, .. }
            | GraphError::Loop { cable, .. }
            | GraphError::Twice { cable }
            | GraphError::Degree { cable, .. } => Some(cable),
            GraphError::Nodes(_) | GraphError::Apart { .. } | GraphError::Sides => None,
        }
    }
}

impl std::error::Error for GraphError {}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            GraphError::Nodes(nodes) => write!(f, "{nodes} nodes is outside 2 to {MOST_NODES}"),
            GraphError::NoSuchNode { node, .. } => write!(f, "there is no node {node}"),
            GraphError::Loop { node, .. } => write!(f, "node {node} is linked to itself"),
            GraphError::Twice { .. } => write!(f, "these nodes are linked already"),
            GraphError::Degree { node, .. } => write!(f, "node {node} has more than {MOST_PORTS} links"),
            GraphError::Apart { node } => write!(f, "no path leads from node 0 to node {node}"),
            GraphError::Sides => {
                write!(f, "a torus or mesh needs 1 to 8 sides of 1 to {MOST_NODES} nodes each")
            }
        }
    }
}

#[cfg(test)]
mod tests;
