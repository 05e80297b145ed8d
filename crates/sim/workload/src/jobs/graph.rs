//! PageRank and connected components on a graph whose vertices are partitioned among ranks, computed in supersteps.
//!
//! In a superstep, each rank traverses the edges of its active vertices. For each vertex of another rank that these
//! edges reach, it combines the updates into one. It then sends one update for each such vertex, which consists of a
//! vertex number and a value. The superstep is over when all ranks have received their updates, as in Gemini (OSDI
//! 2016).
//!
//! A rank loads its edges and the values of its vertices sequentially. For each edge, it also loads the combined update
//! of the edge's target, which may be anywhere among the vertices that the rank updates. Afterwards, for each update
//! that it has received, it loads the value of the updated vertex.

use super::kronecker::KroneckerGraph;
use super::tasks::{Builder, Tasks};
use crate::source::TaskLoads;
use std::ops::Range;
use std::sync::Arc;
use unrack_rack::jobs::{Components, Kronecker, PageRank};
use unrack_units::Time;

/// Bytes of a vertex number in an update, as of Gemini's `VertexId`.
const NUMBER_BYTES: u64 = 4;
/// Bytes of a PageRank value, a `double`.
const RANK_BYTES: u64 = 8;
/// Bytes of a component's label, which is the number of a vertex.
const LABEL_BYTES: u64 = 4;
/// Bytes of a cache line of the processor. The combined update of a vertex takes a whole line, because the other values
/// in its line are not needed.
const LINE_BYTES: u64 = 64;
/// Damping factor (Brin and Page, 1998).
pub const DAMPING: f64 = 0.85;

/// Result of a computation on a graph, and the tasks that the computation needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Supersteps<T> {
    /// Result for each vertex, indexed by vertex.
    pub values: Vec<T>,
    pub rounds: Vec<Arc<Tasks>>,
}

/// Computes PageRank. The job specifies the number of supersteps. If the edges arrive in batches, PageRank is computed after
/// each batch, from the values of the batch before.
pub fn pagerank(spec: &PageRank, ranks: u32, seed: u64) -> Supersteps<f64> {
    let vertices = 1usize << spec.scale;
    let mut all = Supersteps { values: vec![1.0 / vertices as f64; vertices], rounds: Vec::new() };
    let mut chunks = None;
    for batch in 1..=spec.batches {
        // Edges are drawn one after the other, therefore a graph with fewer edges per vertex has the first edges of a larger one.
        let degree = (u64::from(spec.degree) * u64::from(batch) / u64::from(spec.batches)) as u32;
        let graph = KroneckerGraph::draw(&Kronecker { degree, ..spec.graph() }, seed);
        let chunks = chunks.get_or_insert_with(|| graph.chunks(ranks));
        all.pagerank(spec, &graph, chunks);
    }
    all
}

impl Supersteps<f64> {
    /// Runs the supersteps of PageRank on a graph, from these values.
    fn pagerank(&mut self, spec: &PageRank, graph: &KroneckerGraph, chunks: &[Range<u32>]) {
        let vertices = graph.vertices() as usize;
        let mut step = Superstep::new(chunks, vertices);
        let mut tasks: Option<Arc<Tasks>> = None;
        for _ in 0..spec.iterations {
            let mut next = vec![0.0; vertices];
            // A vertex without outgoing edges distributes its PageRank value to all vertices. For this, one number is
            // sufficient, which is sent together with the end of the superstep.
            let mut lost = 0.0;
            step.clear();
            for (rank, chunk) in chunks.iter().enumerate() {
                for vertex in chunk.clone() {
                    match graph.degree(vertex) {
                        0 => lost += self.values[vertex as usize],
                        degree => {
                            let share = self.values[vertex as usize] / f64::from(degree);
                            for target in graph.targets(vertex) {
                                next[*target as usize] += share;
                                step.tell(rank, *target);
                            }
                        }
                    }
                }
            }
            let from_all = (1.0 - DAMPING + DAMPING * lost) / vertices as f64;
            next.iter_mut().for_each(|value| *value = from_all + DAMPING * *value);
            self.values = next;
            // All vertices are active in every superstep, therefore each superstep sends the same messages.
            let tasks = tasks.get_or_insert_with(|| Arc::new(step.tasks(RANK_BYTES, spec.edges_per_s)));
            self.rounds.push(tasks.clone());
        }
    }
}

/// Computes the connected components: for each vertex, the smallest vertex number in its component.
pub fn components(spec: &Components, ranks: u32, seed: u64) -> Supersteps<u32> {
    let graph = KroneckerGraph::draw(&spec.graph(), seed).undirected();
    let chunks = graph.chunks(ranks);
    let vertices = graph.vertices();
    let mut values: Vec<u32> = (0..vertices).collect();
    let mut is_active = vec![true; vertices as usize];
    let mut step = Superstep::new(&chunks, vertices as usize);
    let mut rounds = Vec::new();
    while is_active.contains(&true) {
        let mut next = values.clone();
        step.clear();
        for (rank, chunk) in chunks.iter().enumerate() {
            for vertex in chunk.clone().filter(|vertex| is_active[*vertex as usize]) {
                for target in graph.targets(vertex) {
                    let label = &mut next[*target as usize];
                    *label = values[vertex as usize].min(*label);
                    step.tell(rank, *target);
                }
            }
        }
        for ((active, next), before) in is_active.iter_mut().zip(&next).zip(&values) {
            *active = next != before;
        }
        values = next;
        rounds.push(Arc::new(step.tasks(LABEL_BYTES, spec.edges_per_s)));
    }
    Supersteps { values, rounds }
}

/// Counts of edges and updates in one superstep.
struct Superstep {
    ranks: usize,
    /// Rank that owns each vertex, indexed by vertex.
    owner: Vec<u32>,
    /// Rank that was the last to update each vertex, plus one, indexed by vertex. It ensures that each pair of rank and
    /// vertex is counted only once, because ranks are processed one after the other.
    told_by: Vec<u32>,
    /// Number of updates from each rank to each rank.
    updates: Vec<u64>,
    /// Number of edges that each rank has traversed, indexed by rank.
    edges: Vec<u64>,
    /// Number of vertices that each rank owns, indexed by rank.
    vertices: Vec<u64>,
}

impl Superstep {
    fn new(chunks: &[Range<u32>], vertices: usize) -> Superstep {
        let mut owner = vec![0; vertices];
        for (rank, chunk) in (0..).zip(chunks) {
            owner[chunk.start as usize..chunk.end as usize].fill(rank);
        }
        let ranks = chunks.len();
        Superstep {
            ranks,
            owner,
            told_by: vec![0; vertices],
            updates: vec![0; ranks * ranks],
            edges: vec![0; ranks],
            vertices: chunks.iter().map(|chunk| chunk.len() as u64).collect(),
        }
    }

    fn clear(&mut self) {
        self.told_by.fill(0);
        self.updates.fill(0);
        self.edges.fill(0);
    }

    fn tell(&mut self, rank: usize, target: u32) {
        self.edges[rank] += 1;
        let told_by = &mut self.told_by[target as usize];
        if *told_by != rank as u32 + 1 {
            *told_by = rank as u32 + 1;
            self.updates[rank * self.ranks + self.owner[target as usize] as usize] += 1;
        }
    }

    /// Returns the data that a rank loads while it traverses the edges of its vertices.
    fn goes_through(&self, rank: usize, value_bytes: u64) -> TaskLoads {
        let told: u64 = self.updates[rank * self.ranks..(rank + 1) * self.ranks].iter().sum();
        let edges = self.edges[rank];
        let again = edges * NUMBER_BYTES + self.vertices[rank] * value_bytes;
        TaskLoads { again, scattered: edges, among: told * LINE_BYTES, ..TaskLoads::default() }
    }

    fn tasks(&self, value_bytes: u64, edges_per_s: u64) -> Tasks {
        let mut builder = Builder::new();
        let update_bytes = NUMBER_BYTES + value_bytes;
        for (rank, edges) in (0..).zip(&self.edges) {
            let task = builder.task(rank, Time::from_secs_f64(*edges as f64 / edges_per_s as f64));
            builder.loads(task, self.goes_through(rank as usize, value_bytes));
        }
        let ends = builder.layer(self.ranks as u32);
        for rank in 0..self.ranks {
            let others = (0..self.ranks).filter(|from| *from != rank);
            let updates: u64 = others.map(|from| self.updates[from * self.ranks + rank]).sum();
            let values = self.vertices[rank] * value_bytes;
            let (came, scattered) = (updates * update_bytes, updates);
            let loads = TaskLoads { came, scattered, among: values, ..TaskLoads::default() };
            builder.loads(ends + rank as u32, loads);
        }
        for from in 0..self.ranks {
            // The order is staggered, so that the ranks do not all start with the same target.
            for to in (1..=self.ranks).map(|ahead| (from + ahead) % self.ranks) {
                let updates = self.updates[from * self.ranks + to];
                if to == from {
                    builder.after(from as u32, ends + to as u32);
                } else if updates > 0 {
                    builder.send(from as u32, ends + to as u32, updates * update_bytes);
                }
            }
        }
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pagerank_spec(iterations: u32) -> PageRank {
        PageRank { scale: 10, degree: 8, shuffled: false, edges_per_s: 1_000_000, iterations, batches: 1 }
    }

    /// Computes PageRank without partitioning the graph: each vertex sums up the values of the vertices that have an
    /// edge to it.
    fn plain_pagerank(graph: &KroneckerGraph, iterations: u32) -> Vec<f64> {
        let n = graph.vertices();
        let mut sources = vec![Vec::new(); n as usize];
        for from in 0..n {
            graph.targets(from).iter().for_each(|to| sources[*to as usize].push(from));
        }
        let mut ranks = vec![1.0 / f64::from(n); n as usize];
        for _ in 0..iterations {
            let share = |from: &u32| ranks[*from as usize] / f64::from(graph.degree(*from));
            let lost: f64 = (0..n).filter(|v| graph.degree(*v) == 0).map(|v| ranks[v as usize]).sum();
            let pull = |of: &Vec<u32>| {
                0.15 / f64::from(n) + 0.85 * (of.iter().map(share).sum::<f64>() + lost / f64::from(n))
            };
            ranks = sources.iter().map(pull).collect();
        }
        ranks
    }

    #[test]
    fn ranks_are_those_of_a_plain_implementation() {
        let spec = pagerank_spec(10);
        let plain = plain_pagerank(&KroneckerGraph::draw(&spec.graph(), 5), 10);
        for ranks in [2, 7] {
            let found = pagerank(&spec, ranks, 5).values;
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(found.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }

    /// The values of an evolving graph converge to those of the whole graph, and later batches have more edges on the same ranks.
    #[test]
    fn edges_arrive_in_batches() {
        let spec = PageRank { batches: 4, ..pagerank_spec(30) };
        let (grown, whole) = (pagerank(&spec, 4, 5), pagerank(&pagerank_spec(60), 4, 5));
        assert!(grown.values.iter().zip(&whole.values).all(|(a, b)| (a - b).abs() < 1e-4));
        assert_eq!(grown.rounds.len(), 4 * 30);
        let computed: Vec<u64> =
            grown.rounds.iter().step_by(30).map(|round| round.computed().as_ns() / 1_000).collect();
        // The rate is a million edges per second, and each batch has two edges for each of 1024 vertices.
        assert_eq!(computed, [2048, 4096, 6144, 8192]);
        let busiest = |round: &Tasks| (0..4).map(|task| round.compute_of(task)).max().unwrap().as_us_f64();
        let skew = |round: usize| busiest(&grown.rounds[round]) * 4.0 / computed[round / 30] as f64;
        assert!(skew(90) != skew(0), "ranks keep their vertices, whose numbers of edges grow unevenly");
    }

    fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
        while parents[vertex as usize] != vertex {
            parents[vertex as usize] = parents[parents[vertex as usize] as usize];
            vertex = parents[vertex as usize];
        }
        vertex
    }

    #[test]
    fn components_are_those_of_union_find() {
        for (degree, seed) in [(1, 1), (2, 2), (8, 3)] {
            let spec = Components { scale: 10, degree, shuffled: true, edges_per_s: 1_000_000 };
            let graph = KroneckerGraph::draw(&spec.graph(), seed);
            let mut parents: Vec<u32> = (0..graph.vertices()).collect();
            for from in 0..graph.vertices() {
                for to in graph.targets(from) {
                    let (a, b) = (root(&mut parents, from), root(&mut parents, *to));
                    // The smaller vertex becomes the root, as in the computation by labels.
                    parents[a.max(b) as usize] = a.min(b);
                }
            }
            let expected: Vec<u32> = (0..graph.vertices()).map(|v| root(&mut parents, v)).collect();
            assert_eq!(components(&spec, 5, seed).values, expected);
        }
    }

    /// The number of updates is equal to the number of different pairs of an updating rank and an updated vertex.
    #[test]
    fn an_update_for_each_rank_and_vertex() {
        let spec = pagerank_spec(3);
        let graph = KroneckerGraph::draw(&spec.graph(), 9);
        let ranks = 4;
        let owner = |vertex: u32| {
            graph.chunks(ranks).iter().position(|chunk| chunk.contains(&vertex)).unwrap() as u32
        };
        let owners: Vec<u32> = (0..graph.vertices()).map(owner).collect();
        let pairs: std::collections::BTreeSet<(u32, u32)> = (0..graph.vertices())
            .flat_map(|from| graph.targets(from).iter().map(move |to| (from, *to)))
            .map(|(from, to)| (owners[from as usize], to))
            .filter(|(from, to)| *from != owners[*to as usize])
            .collect();
        let rounds = pagerank(&spec, ranks, 9).rounds;
        let bytes: u64 = rounds[0].messages().map(|(_, _, bytes)| bytes).sum();
        assert_eq!((rounds.len(), bytes), (3, 12 * pairs.len() as u64));
        let loads: Vec<_> = (0..2 * ranks).map(|task| rounds[0].loads_of(task)).collect();
        let sum = |of: fn(&crate::TaskLoads) -> u64| loads.iter().map(of).sum::<u64>();
        // Each edge and each value is loaded once. In addition, a combined update is loaded for each edge, and a value
        // for each received update.
        assert_eq!(sum(|loads| loads.again), u64::from(4 * graph.edges() + 8 * graph.vertices()));
        assert_eq!(sum(|loads| loads.scattered), u64::from(graph.edges()) + pairs.len() as u64);
        assert_eq!(sum(|loads| loads.came), bytes);
        // The rate is a million edges per second.
        assert_eq!(rounds[0].computed(), Time::from_us(graph.edges().into()));
    }

    #[test]
    fn fewer_and_fewer_labels_change() {
        let spec = Components { scale: 12, degree: 2, shuffled: false, edges_per_s: 1_000_000 };
        let rounds = components(&spec, 4, 1).rounds;
        let bytes: Vec<u64> = rounds.iter().map(|round| round.messages().map(|sent| sent.2).sum()).collect();
        assert!(bytes.len() > 3 && bytes[0] > 10 * bytes[bytes.len() - 1], "{bytes:?}");
    }
}
