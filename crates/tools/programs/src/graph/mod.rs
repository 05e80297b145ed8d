//! PageRank and connected components of one graph: with one thread, with several threads, and on timely dataflow.
//!
//! COST (McSherry, Isard and Murray, HotOS 2015) measures how many cores a parallel system needs to outperform one thread; DDC (section
//! 5.2) gives that thread remote memory. The graph is generated for each run by R-MAT (Chakrabarti, Zhan and Faloutsos, SDM 2004).

mod dataflow;
mod threads;

use crate::ProgramError;
use clap::ValueEnum;
use unrack_lines_kernels::SparseGraph;

/// Options of `unrack-programs graph`.
#[derive(Debug, clap::Args)]
pub struct Args {
    problem: GraphProblem,
    /// Way of computing it
    #[arg(long, value_enum, default_value = "threads")]
    by: GraphMethod,
    /// Threads, or workers of a dataflow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Size of the graph with its results, in MiB: rounded down to a power of two of nodes
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    size: u32,
    /// Iterations of PageRank
    #[arg(long, value_name = "N", default_value_t = 10)]
    iterations: u32,
}

/// Question about a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphProblem {
    /// Ranks of all nodes after some iterations
    Pagerank,
    /// Number of connected components, and of nodes in the largest
    Components,
}

/// Way of computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphMethod {
    /// One thread goes along the edges; several divide the nodes
    Threads,
    /// Workers of timely dataflow exchange messages along the edges; PageRank only
    Dataflow,
}

/// Solves the problem, and returns a line with the result.
pub(crate) fn run(args: &Args) -> Result<String, ProgramError> {
    let graph = SparseGraph::in_passes((args.size as usize) << 20);
    let (threads, nodes) = (usize::from(args.threads), graph.nodes());
    let answer = match (args.problem, args.by) {
        (GraphProblem::Pagerank, GraphMethod::Threads) => {
            ranks(&threads::pagerank(&graph, args.iterations, threads))
        }
        (GraphProblem::Pagerank, GraphMethod::Dataflow) => {
            ranks(&dataflow::pagerank(graph, args.iterations, threads)?)
        }
        (GraphProblem::Components, GraphMethod::Threads) => components(&threads::components(&graph, threads)),
        (GraphProblem::Components, GraphMethod::Dataflow) => return Err(ProgramError::NoDataflow),
    };
    Ok(format!("{nodes} nodes: {answer}"))
}

/// Formats the sum of the ranks and the largest rank, with only those digits that do not depend on the order of additions.
fn ranks(ranks: &[f64]) -> String {
    let largest = ranks.iter().copied().fold(0.0, f64::max);
    format!("ranks {:.6} in all, the largest {largest:.6e}", ranks.iter().sum::<f64>())
}

/// Formats the number of components, and the size of the largest one.
fn components(labels: &[u32]) -> String {
    let mut sizes = vec![0u32; labels.len()];
    labels.iter().for_each(|label| sizes[*label as usize] += 1);
    let count = sizes.iter().filter(|size| **size > 0).count();
    format!("{count} components, the largest of {} nodes", sizes.iter().max().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::threads::DAMPING;
    use super::*;

    /// Computes the ranks by their definition, edge by edge.
    fn by_definition(graph: &SparseGraph, iterations: u32) -> Vec<f64> {
        let nodes = graph.nodes();
        let mut degrees = vec![0.0; nodes];
        (0..nodes as u32)
            .for_each(|to| graph.neighbours(to).iter().for_each(|from| degrees[*from as usize] += 1.0));
        let mut ranks = vec![1.0 / nodes as f64; nodes];
        for _ in 0..iterations {
            let mut next = vec![(1.0 - DAMPING) / nodes as f64; nodes];
            for to in 0..nodes as u32 {
                for from in graph.neighbours(to) {
                    next[to as usize] += DAMPING * ranks[*from as usize] / degrees[*from as usize];
                }
            }
            ranks = next;
        }
        ranks
    }

    #[test]
    fn ranks_are_the_same_by_all_ways() {
        // The smaller graph leaves some workers without edges.
        for (bytes, iterations) in [(1 << 8, 5), (1 << 18, 4), (1 << 18, 0), (1 << 20, 1)] {
            let expected = by_definition(&SparseGraph::random(bytes), iterations);
            let near = |how: &str, ranks: &[f64]| {
                assert_eq!(ranks.len(), expected.len());
                let off = ranks.iter().zip(&expected).position(|(a, b)| (a - b).abs() >= 1e-9 * b);
                assert_eq!(off.map(|node| (node, ranks[node], expected[node])), None, "{how}");
            };
            for threads in [1, 2, 3, 7] {
                near("threads", &threads::pagerank(&SparseGraph::random(bytes), iterations, threads));
                near(
                    "dataflow",
                    &dataflow::pagerank(SparseGraph::random(bytes), iterations, threads).unwrap(),
                );
            }
        }
    }

    #[test]
    fn components_are_those_that_a_search_finds() {
        let graph = SparseGraph::random(1 << 16);
        let nodes = graph.nodes();
        let mut both = vec![Vec::new(); nodes];
        for to in 0..nodes as u32 {
            for from in graph.neighbours(to) {
                both[to as usize].push(*from);
                both[*from as usize].push(to);
            }
        }
        let mut expected = vec![u32::MAX; nodes];
        for start in 0..nodes {
            let mut left = vec![start as u32];
            while let Some(node) = left.pop() {
                if expected[node as usize] == u32::MAX {
                    expected[node as usize] = start as u32;
                    left.extend(&both[node as usize]);
                }
            }
        }
        for threads in [1, 2, 3] {
            assert_eq!(threads::components(&graph, threads), expected, "{threads} threads");
        }
    }
}
