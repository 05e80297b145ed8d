//! Breadth-first search and PageRank on an R-MAT graph (Chakrabarti, Zhan and Faloutsos, SDM 2004) with the
//! probabilities of the Graph 500: 0.57, 0.19, 0.19, 0.05.

use unrack_basis::SplitMix64;

/// Number of edges per node of the graph.
const DEGREE: usize = 12;
/// Bytes of memory per node of the graph: the node's edges, its offset into the array of edges, and its state.
const NODE_BYTES: usize = 4 * DEGREE + 8 + 16;
/// Cumulative probabilities, in 1/256, that an R-MAT edge lies in each quadrant of the adjacency matrix. The cumulative
/// probability of the fourth quadrant is 256/256 and is not stored.
const QUADRANTS: [u8; 3] = [146, 195, 244];
const DAMPING: f64 = 0.85;
/// Number of buckets to which [`SparseGraph::in_passes`] distributes the edges. This function writes to one page of
/// each bucket at a time.
const BUCKETS: usize = 256;

/// Returns the number of edges of the graph.
pub(crate) fn items(bytes: usize) -> u64 {
    (nodes(bytes) * DEGREE) as u64
}

/// Returns the number of nodes of a graph that takes `bytes` bytes, rounded down to a power of two.
fn nodes(bytes: usize) -> usize {
    1 << (bytes / NODE_BYTES).ilog2()
}

/// Graph whose edges are grouped by the node at which they start (compressed sparse rows).
pub struct SparseGraph {
    starts: Vec<u64>,
    neighbours: Vec<u32>,
}

impl SparseGraph {
    /// Generates a random R-MAT graph. `bytes` is the memory of the graph together with the results that a kernel
    /// computes for its nodes.
    pub fn random(bytes: usize) -> SparseGraph {
        let nodes = nodes(bytes);
        let mut random = SplitMix64::new(4);
        let edges: Vec<(u32, u32)> = (0..nodes * DEGREE).map(|_| edge(nodes.ilog2(), &mut random)).collect();
        SparseGraph::new(nodes, &edges)
    }

    /// Generates the same graph as [`SparseGraph::random`], but in several passes through memory, like a program that
    /// sorts more data than fit into memory. The first pass distributes the edges to buckets. A bucket holds the edges
    /// of a range of successive nodes. The second pass groups the edges of each bucket by node.
    pub fn in_passes(bytes: usize) -> SparseGraph {
        let nodes = nodes(bytes);
        let bucket = (nodes / BUCKETS).max(1);
        let mut random = SplitMix64::new(4);
        let mut buckets = vec![Vec::new(); nodes.div_ceil(bucket)];
        for _ in 0..nodes * DEGREE {
            let edge = edge(nodes.ilog2(), &mut random);
            buckets[edge.0 as usize / bucket].push(edge);
        }
        let (mut starts, mut neighbours) =
            (Vec::with_capacity(nodes + 1), Vec::with_capacity(nodes * DEGREE));
        starts.push(0);
        for (first, mut edges) in (0..nodes).step_by(bucket).zip(buckets) {
            edges.sort_by_key(|(from, _)| *from);
            let mut from = edges.iter().map(|(from, _)| *from).peekable();
            for node in first..first + bucket {
                while from.next_if_eq(&(node as u32)).is_some() {}
                starts.push((neighbours.len() + edges.len() - from.len()) as u64);
            }
            neighbours.extend(edges.iter().map(|(_, to)| *to));
        }
        SparseGraph { starts, neighbours }
    }

    fn new(nodes: usize, edges: &[(u32, u32)]) -> SparseGraph {
        let mut starts = vec![0u64; nodes + 1];
        edges.iter().for_each(|(from, _)| starts[*from as usize + 1] += 1);
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let (mut next, mut neighbours) = (starts.clone(), vec![0; edges.len()]);
        for (from, to) in edges {
            let at = &mut next[*from as usize];
            neighbours[*at as usize] = *to;
            *at += 1;
        }
        SparseGraph { starts, neighbours }
    }

    /// Returns the number of nodes, a power of two.
    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the nodes to which the edges of `node` lead.
    pub fn neighbours(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.neighbours[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Returns the distance of each node from `root` in edges, or `u32::MAX` for a node that cannot be reached from
    /// `root`.
    fn distances(&self, root: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.nodes()];
        distances[root as usize] = 0;
        let mut queue = vec![root];
        let mut first = 0;
        while let Some(&node) = queue.get(first) {
            first += 1;
            let distance = distances[node as usize] + 1;
            for &neighbour in self.neighbours(node) {
                if distances[neighbour as usize] == u32::MAX {
                    distances[neighbour as usize] = distance;
                    queue.push(neighbour);
                }
            }
        }
        distances
    }

    /// Returns the ranks of all nodes after one PageRank iteration, in which each node sums the shares that it obtains
    /// from its neighbours. `given` contains the share that each node gives to each neighbour.
    fn pulled(&self, given: &[f64]) -> Vec<f64> {
        let base = (1.0 - DAMPING) / self.nodes() as f64;
        let sum = |node| self.neighbours(node).iter().map(|from| given[*from as usize]).sum::<f64>();
        (0..self.nodes() as u32).map(|node| base + DAMPING * sum(node)).collect()
    }
}

/// Generates one R-MAT edge. At each level of recursion, 8 random bits select one quadrant of the adjacency matrix.
fn edge(levels: u32, random: &mut SplitMix64) -> (u32, u32) {
    let (mut from, mut to, mut bits) = (0, 0, 0);
    for level in 0..levels {
        bits = if level % 8 == 0 { random.next_u64() } else { bits >> 8 };
        let passed = QUADRANTS.map(|limit| u32::from(bits as u8 >= limit));
        from = 2 * from + passed[1];
        to = 2 * to + (passed[0] - passed[1] + passed[2]);
    }
    (from, to)
}

/// Runs a breadth-first search of a graph from a different root node in each round.
pub(crate) fn bfs(bytes: usize, rounds: u64) -> u64 {
    let graph = SparseGraph::random(bytes);
    let mut random = SplitMix64::new(5);
    let mut checksum = 0u64;
    for _ in 0..rounds {
        let root = (random.next_u64() % graph.nodes() as u64) as u32;
        let start = (root..).chain(0..).find(|node| {
            graph.starts.get(*node as usize + 1).is_some() && !graph.neighbours(*node).is_empty()
        });
        let distances = graph.distances(start.unwrap_or(root));
        let sum: u64 = distances.iter().filter(|d| **d != u32::MAX).map(|d| u64::from(*d) + 1).sum();
        checksum = checksum.rotate_left(1) ^ sum;
    }
    checksum
}

/// Runs one PageRank iteration per round, starting from equal ranks of all nodes.
pub(crate) fn pagerank(bytes: usize, rounds: u64) -> u64 {
    let graph = SparseGraph::random(bytes);
    let mut degrees = vec![0u32; graph.nodes()];
    graph.neighbours.iter().for_each(|from| degrees[*from as usize] += 1);
    let mut ranks = vec![1.0 / graph.nodes() as f64; graph.nodes()];
    for _ in 0..rounds {
        let given: Vec<f64> =
            ranks.iter().zip(&degrees).map(|(rank, degree)| rank / f64::from((*degree).max(1))).collect();
        ranks = graph.pulled(&given);
    }
    ranks.iter().step_by(64).sum::<f64>().to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_on_a_path_and_beside_it() {
        let graph = SparseGraph::new(5, &[(0, 1), (1, 2), (2, 0), (1, 3)]);
        assert_eq!(graph.distances(0), [0, 1, 2, 2, u32::MAX]);
        assert_eq!(graph.distances(4), [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0]);
    }

    #[test]
    fn ranks_of_a_cycle_stay_equal() {
        let graph = SparseGraph::new(4, &[(0, 1), (1, 2), (2, 3), (3, 0)]);
        assert!(graph.pulled(&[0.25; 4]).iter().all(|rank| (rank - 0.25).abs() < 1e-12));
    }

    #[test]
    fn a_graph_is_the_same_in_passes() {
        for bytes in [1 << 7, 1 << 12, 1 << 16, 1 << 22] {
            let (one, other) = (SparseGraph::random(bytes), SparseGraph::in_passes(bytes));
            assert_eq!((one.starts, one.neighbours), (other.starts, other.neighbours), "{bytes}");
        }
    }

    #[test]
    fn quadrants_have_their_shares() {
        let mut random = SplitMix64::new(9);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            let (from, to) = edge(1, &mut random);
            counts[(2 * from + to) as usize] += 1;
        }
        for (count, share) in counts.iter().zip([0.57, 0.19, 0.19, 0.05]) {
            assert!((f64::from(*count) / 40_000.0 - share).abs() < 0.015, "{counts:?}");
        }
    }
}
