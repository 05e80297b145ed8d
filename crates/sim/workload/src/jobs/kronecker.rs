//! Random graphs, drawn by the generator of Graph500 (Kronecker, R-MAT), and the partition of their vertices among
//! ranks.

use crate::random::{DrawPurpose, Generator, below, generator, unit};
use std::ops::Range;
use unrack_rack::jobs::Kronecker;

/// Probabilities of the quadrants of the adjacency matrix, from which an edge is drawn at each of `scale` levels
/// (Graph500 §3.2). The last quadrant has the remaining probability.
const A: f64 = 0.57;
const B: f64 = 0.19;
const C: f64 = 0.19;

/// Directed graph, which stores the targets of each vertex. Loops and repeated edges are kept, as in Graph500.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KroneckerGraph {
    /// Index in `targets` of each vertex's first target, followed by the number of edges.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl KroneckerGraph {
    /// Draws the graph that a job describes.
    pub fn draw(spec: &Kronecker, seed: u64) -> KroneckerGraph {
        let vertices = 1u32 << spec.scale;
        let mut draws = generator(seed, DrawPurpose::Edges, 0);
        let labels = spec.shuffled.then(|| shuffled(vertices, &mut generator(seed, DrawPurpose::Labels, 0)));
        let label = |vertex: u32| labels.as_ref().map_or(vertex, |labels| labels[vertex as usize]);
        let edges = u64::from(vertices) * u64::from(spec.degree);
        let drawn = (0..edges).map(|_| {
            let (from, to) = edge(spec.scale, &mut draws);
            (label(from), label(to))
        });
        KroneckerGraph::from_edges(vertices, drawn.collect())
    }

    /// Creates a graph with these edges, which are pairs of source and target.
    pub fn from_edges(vertices: u32, edges: Vec<(u32, u32)>) -> KroneckerGraph {
        let mut starts = vec![0; vertices as usize + 1];
        for (from, _) in &edges {
            starts[*from as usize + 1] += 1;
        }
        for vertex in 0..vertices as usize {
            starts[vertex + 1] += starts[vertex];
        }
        let mut place = starts.clone();
        let mut targets = vec![0; edges.len()];
        for (from, to) in edges {
            targets[place[from as usize] as usize] = to;
            place[from as usize] += 1;
        }
        KroneckerGraph { starts, targets }
    }

    /// Returns a graph that contains each edge of this graph in both directions.
    pub fn undirected(&self) -> KroneckerGraph {
        let both = |from: u32| self.targets(from).iter().flat_map(move |to| [(from, *to), (*to, from)]);
        KroneckerGraph::from_edges(self.vertices(), (0..self.vertices()).flat_map(both).collect())
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> u32 {
        self.targets.len() as u32
    }

    /// Returns the targets of the edges that leave a vertex.
    pub fn targets(&self, vertex: u32) -> &[u32] {
        &self.targets[self.starts[vertex as usize] as usize..self.starts[vertex as usize + 1] as usize]
    }

    /// Returns the number of edges that leave a vertex.
    pub fn degree(&self, vertex: u32) -> u32 {
        self.starts[vertex as usize + 1] - self.starts[vertex as usize]
    }

    /// Partitions the vertices into chunks of consecutive vertices, one for each rank. The chunks have about the same
    /// weight |E| + a |V|, where |E| is the number of edges and |V| the number of vertices of a chunk. This is the
    /// partition of Gemini (OSDI 2016), with its a = 8 (ranks - 1).
    pub fn chunks(&self, ranks: u32) -> Vec<Range<u32>> {
        let weight = 8 * u64::from(ranks - 1);
        let until = |vertex: u32| u64::from(self.starts[vertex as usize]) + weight * u64::from(vertex);
        let all = until(self.vertices());
        let end = |rank: u32| {
            let share = all * u64::from(rank + 1) / u64::from(ranks);
            // Search for the first vertex at which the chunks have reached their share of the weight.
            let (mut low, mut high) = (0, self.vertices());
            while low < high {
                let middle = low + (high - low) / 2;
                match until(middle) < share {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low
        };
        // With one rank, a is 0, so that vertices without edges at the end have no weight.
        let ends: Vec<u32> = (0..ranks - 1).map(end).chain([self.vertices()]).collect();
        (0..ranks as usize).map(|rank| if rank == 0 { 0 } else { ends[rank - 1] }..ends[rank]).collect()
    }
}

fn edge(scale: u32, draws: &mut Generator) -> (u32, u32) {
    let (mut from, mut to) = (0, 0);
    for _ in 0..scale {
        let drawn = unit(draws);
        let (down, right) = (drawn >= A + B, (A..A + B).contains(&drawn) || drawn >= A + B + C);
        from = from << 1 | u32::from(down);
        to = to << 1 | u32::from(right);
    }
    (from, to)
}

/// Returns a random permutation of the vertices (Fisher and Yates).
fn shuffled(vertices: u32, draws: &mut Generator) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..vertices).collect();
    for last in (1..vertices).rev() {
        labels.swap(last as usize, below(draws, last + 1) as usize);
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(scale: u32, shuffled: bool) -> Kronecker {
        Kronecker { scale, degree: 16, shuffled, edges_per_s: 1 }
    }

    #[test]
    fn quadrants_are_as_likely_as_they_should_be() {
        let graph = KroneckerGraph::draw(&spec(12, false), 1);
        assert_eq!((graph.vertices(), graph.edges()), (4096, 65536));
        let upper: u32 = (0..2048).map(|vertex| graph.degree(vertex)).sum();
        let share = f64::from(upper) / f64::from(graph.edges());
        assert!((share - (A + B)).abs() < 0.01, "{share}");
        // Vertex 0 has (A + B)^scale of the edges: a hub.
        let hub = f64::from(graph.degree(0)) / f64::from(graph.edges()) / (A + B).powi(12);
        assert!((0.9..1.1).contains(&hub), "{hub}");
    }

    #[test]
    fn shuffled_labels_are_the_same_graph() {
        let degrees = |shuffled| {
            let graph = KroneckerGraph::draw(&spec(8, shuffled), 7);
            let mut degrees: Vec<u32> = (0..graph.vertices()).map(|vertex| graph.degree(vertex)).collect();
            degrees.sort_unstable();
            degrees
        };
        assert_eq!(degrees(false), degrees(true));
    }

    #[test]
    fn chunks_cover_all_vertices_once_and_are_about_equal() {
        for ranks in [1, 2, 5, 8] {
            let graph = KroneckerGraph::draw(&spec(12, false), 3);
            let chunks = graph.chunks(ranks);
            assert_eq!((chunks[0].start, chunks.last().unwrap().end), (0, graph.vertices()));
            assert!(chunks.windows(2).all(|two| two[0].end == two[1].start));
            let weight = |chunk: &Range<u32>| {
                let edges: u32 = chunk.clone().map(|vertex| graph.degree(vertex)).sum();
                f64::from(edges) + f64::from(8 * (ranks - 1)) * f64::from(chunk.end - chunk.start)
            };
            let mean = chunks.iter().map(weight).sum::<f64>() / f64::from(ranks);
            assert!(chunks.iter().all(|chunk| (0.8..1.25).contains(&(weight(chunk) / mean))), "{ranks}");
        }
    }
}
