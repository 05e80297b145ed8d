//! Broadcast trees (§3.2). The source of a broadcast and the number of its tree determine the neighbours to which a node forwards the
//! broadcast.
//!
//! A tree consists of shortest paths, so that a broadcast arrives everywhere as early as possible. If several neighbours of a node are
//! equally near to the source, the number of the node and the number of the tree decide which of these neighbours forwards the broadcast to
//! the node. Therefore different trees use different links. On a torus, only the trees of one source are computed; translated, they serve
//! as the trees of every other source.

use std::sync::Arc;
use unrack_rack::graph::Graph;

/// The broadcast forwarding tables of all nodes.
#[derive(Debug, Clone)]
pub struct Trees {
    graph: Arc<Graph>,
    count: u8,
    torus: Option<Torus>,
    /// Bit masks of the ports by which a node forwards a broadcast, indexed by source, then by tree and node. The entry of a source is
    /// computed when it is first needed.
    masks: Vec<Option<Box<[u8]>>>,
}

/// Table of the coordinates of the nodes of a torus. The table avoids divisions, which are slow.
#[derive(Debug, Clone)]
struct Torus {
    /// Side and stride of each dimension.
    axes: Vec<[u32; 2]>,
    /// Coordinates of each node, by node.
    places: Vec<u32>,
}

impl Trees {
    /// Creates the tables for `count` trees per source, at least 1.
    pub fn new(graph: Arc<Graph>, count: u8) -> Trees {
        let masks = vec![None; graph.nodes() as usize];
        Trees { count: count.max(1), torus: Torus::new(&graph), masks, graph }
    }

    /// Returns the number of trees per source.
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Returns the ports by which `node` forwards a broadcast that `src` sent along `tree`, as a mask with one bit per port. The mask is 0
    /// if the tree does not exist.
    pub fn ports(&mut self, node: u32, src: u32, tree: u8) -> u8 {
        if tree >= self.count || node >= self.graph.nodes() || src >= self.graph.nodes() {
            return 0;
        }
        let (node, src) = match &self.torus {
            Some(torus) => (torus.relative(node, src), 0),
            None => (node, src),
        };
        let (graph, count) = (&self.graph, self.count);
        let masks = self.masks[src as usize].get_or_insert_with(|| masks(graph, src, count));
        masks[usize::from(tree) * graph.nodes() as usize + node as usize]
    }

    /// Returns all links of a source's tree.
    pub fn links(&mut self, src: u32, tree: u8) -> Vec<u32> {
        let mut links = Vec::new();
        for node in 0..self.graph.nodes() {
            let mask = self.ports(node, src, tree);
            let ports = self.graph.links_of(node).enumerate();
            links.extend(ports.filter(|(port, _)| mask >> port & 1 == 1).map(|(_, link)| link));
        }
        links
    }

    /// Returns the first tree of a source that uses none of the links in `down`. The search starts at tree `turn` and wraps around. Returns
    /// `None` if every tree uses such a link.
    pub fn around(&mut self, src: u32, turn: u8, down: &[u32]) -> Option<u8> {
        let count = u16::from(self.count);
        let mut turns = (0..count).map(|n| ((u16::from(turn) + n) % count) as u8);
        turns.find(|tree| down.is_empty() || !self.links(src, *tree).iter().any(|link| down.contains(link)))
    }
}

impl Torus {
    fn new(graph: &Graph) -> Option<Torus> {
        let cube = graph.as_cube().filter(|cube| cube.is_torus())?;
        let axes = (0..cube.dimensions()).map(|dimension| [cube.side(dimension), cube.stride(dimension)]);
        let coordinates =
            |node| (0..cube.dimensions()).map(move |dimension| cube.coordinate(node, dimension));
        Some(Torus { axes: axes.collect(), places: (0..graph.nodes()).flat_map(coordinates).collect() })
    }

    /// Returns the node that lies relative to node 0 as `node` lies relative to `from`.
    fn relative(&self, node: u32, from: u32) -> u32 {
        let place = |node: u32| &self.places[node as usize * self.axes.len()..];
        let both = place(node).iter().zip(place(from));
        let along = |([side, stride], (to, from)): (&[u32; 2], (&u32, &u32))| {
            stride * if to >= from { to - from } else { to + side - from }
        };
        self.axes.iter().zip(both).map(along).sum()
    }
}

fn masks(graph: &Graph, src: u32, count: u8) -> Box<[u8]> {
    let nodes = graph.nodes() as usize;
    let distances = graph.distances_to(src);
    let mut masks = vec![0; usize::from(count) * nodes].into_boxed_slice();
    for node in (0..graph.nodes()).filter(|node| *node != src) {
        let nearer = |link: &u32| distances[graph.to(*link) as usize] < distances[node as usize];
        let parents: Vec<u32> = graph.links_of(node).filter(nearer).map(|link| graph.reverse(link)).collect();
        // No path leads to a node without parents.
        for tree in (0..usize::from(count)).filter(|_| !parents.is_empty()) {
            let link = parents[(node as usize + tree) % parents.len()];
            masks[tree * nodes + graph.from(link) as usize] |= 1 << graph.port(link);
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use unrack_rack::graph::Sides;

    fn graphs() -> Vec<Graph> {
        let cube = |sides: &[u32], wraps| Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap();
        let cables = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4), (0, 3)];
        let chords = Graph::of_cables(6, &cables).unwrap();
        vec![cube(&[4, 4], true), cube(&[3, 2, 4], true), cube(&[4, 3], false), chords]
    }

    /// Every node receives a broadcast exactly once and over a shortest path. Therefore a tree has one link for each node except the
    /// source.
    #[test]
    fn a_broadcast_comes_to_all_once_and_by_shortest_paths() {
        for graph in graphs().into_iter().map(Arc::new) {
            let mut trees = Trees::new(graph.clone(), 4);
            for (src, tree) in (0..graph.nodes()).flat_map(|src| (0..4).map(move |tree| (src, tree))) {
                let distances = graph.distances_to(src);
                let mut reached = BTreeSet::from([src]);
                let mut front = vec![src];
                let mut hops = 0;
                while !front.is_empty() {
                    hops += 1;
                    let mut next = Vec::new();
                    for node in front {
                        let mask = trees.ports(node, src, tree);
                        for (port, link) in graph.links_of(node).enumerate() {
                            if mask >> port & 1 == 1 {
                                assert!(reached.insert(graph.to(link)), "twice");
                                assert_eq!(distances[graph.to(link) as usize], hops);
                                next.push(graph.to(link));
                            }
                        }
                    }
                    front = next;
                }
                assert_eq!(reached.len(), graph.nodes() as usize);
                assert_eq!(trees.links(src, tree).len(), graph.nodes() as usize - 1);
            }
            assert_eq!(trees.ports(0, 0, 4), 0);
        }
    }

    #[test]
    fn trees_share_the_load_and_avoid_what_is_down() {
        let graph = Arc::new(Graph::cube(Sides::new(&[4, 4]).unwrap(), true).unwrap());
        let mut trees = Trees::new(graph.clone(), 4);
        let mut uses = vec![0; graph.links() as usize];
        for (src, tree) in (0..16).flat_map(|src| (0..4).map(move |tree| (src, tree))) {
            trees.links(src, tree).into_iter().for_each(|link| uses[link as usize] += 1);
        }
        // 16 sources, 4 trees of 15 links, over 64 links.
        assert!(uses.iter().all(|uses| (8..=24).contains(uses)), "{uses:?}");
        // Some tree avoids this link; no tree avoids all links of a node.
        let far = graph.link_to(5, 6).unwrap();
        let around = trees.around(0, 0, &[far]).unwrap();
        assert!(!trees.links(0, around).contains(&far));
        let all: Vec<u32> = graph.links_of(6).map(|link| graph.reverse(link)).collect();
        assert_eq!(trees.around(0, 0, &all), None);
        assert_eq!(trees.around(0, 3, &[]), Some(3));
    }
}
