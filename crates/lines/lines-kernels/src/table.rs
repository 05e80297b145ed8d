//! Table of the kernels.

use crate::{core, graph, lookup, matrix, pointers, sorting, stream, text};

/// Kernel with a known memory access pattern.
pub(crate) struct AccessKernel {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Description of the work of a round, for the help.
    pub(crate) about: &'static str,
    /// Function that returns the number of items of work per round for a working set of the given bytes.
    pub(crate) items: fn(usize) -> u64,
    /// Number of items of work of a run whose command line lacks `--rounds`.
    pub(crate) usual_items: u64,
    /// Function that runs the kernel, given the bytes of the working set and the number of rounds. It returns a
    /// checksum.
    pub(crate) run: fn(usize, u64) -> u64,
}

/// All kernels.
pub(crate) const KERNELS: [AccessKernel; 30] = [
    AccessKernel {
        name: "copy",
        about: "STREAM copy: c[i] = a[i]; an item is one i",
        items: stream::items,
        usual_items: 100_000_000,
        run: stream::copy,
    },
    AccessKernel {
        name: "scale",
        about: "STREAM scale: b[i] = q c[i]",
        items: stream::items,
        usual_items: 100_000_000,
        run: stream::scale,
    },
    AccessKernel {
        name: "add",
        about: "STREAM add: c[i] = a[i] + b[i]",
        items: stream::items,
        usual_items: 100_000_000,
        run: stream::add,
    },
    AccessKernel {
        name: "triad",
        about: "STREAM triad: a[i] = b[i] + q c[i]",
        items: stream::items,
        usual_items: 100_000_000,
        run: stream::triad,
    },
    AccessKernel {
        name: "gups",
        about: "random updates of a table of words; an item is an update",
        items: pointers::words,
        usual_items: 20_000_000,
        run: pointers::gups,
    },
    AccessKernel {
        name: "chase",
        about: "one chain of dependent loads of lines; an item is a load",
        items: pointers::steps,
        usual_items: 4_000_000,
        run: pointers::chase,
    },
    AccessKernel {
        name: "chases",
        about: "eight independent chains of loads; an item is a load",
        items: pointers::steps,
        usual_items: 16_000_000,
        run: pointers::chases,
    },
    AccessKernel {
        name: "list",
        about: "walk of a linked list that sums 56 bytes a node; an item is a node",
        items: pointers::steps,
        usual_items: 3_000_000,
        run: pointers::list,
    },
    AccessKernel {
        name: "bfs",
        about: "breadth-first search on an R-MAT graph; an item is an edge of the graph",
        items: graph::items,
        usual_items: 10_000_000,
        run: graph::bfs,
    },
    AccessKernel {
        name: "pagerank",
        about: "one iteration of PageRank on an R-MAT graph; an item is an edge",
        items: graph::items,
        usual_items: 30_000_000,
        run: graph::pagerank,
    },
    AccessKernel {
        name: "sort",
        about: "sort of random words by the standard library; an item is a word",
        items: sorting::items,
        usual_items: 4_000_000,
        run: sorting::sort,
    },
    AccessKernel {
        name: "merge-sort",
        about: "bottom-up merge sort of random words; an item is a word",
        items: sorting::merge_items,
        usual_items: 2_000_000,
        run: sorting::merge_sort,
    },
    AccessKernel {
        name: "join",
        about: "hash join: build of a table, probes by as many keys; an item is a probe",
        items: lookup::join_items,
        usual_items: 6_000_000,
        run: lookup::join,
    },
    AccessKernel {
        name: "btree",
        about: "look-ups of random keys in a BTreeMap; an item is a look-up",
        items: lookup::lookups,
        usual_items: 1_000_000,
        run: lookup::btree,
    },
    AccessKernel {
        name: "binary-search",
        about: "binary searches of random keys in a sorted array; an item is a search",
        items: lookup::lookups,
        usual_items: 1_000_000,
        run: lookup::binary_search,
    },
    AccessKernel {
        name: "matmul",
        about: "one row of a matrix product, by columns; an item is a multiplication and addition",
        items: matrix::row_items,
        usual_items: 50_000_000,
        run: matrix::naive,
    },
    AccessKernel {
        name: "matmul-blocked",
        about: "32 rows of a matrix product in blocks; an item is a multiplication and addition",
        items: matrix::blocked_items,
        usual_items: 200_000_000,
        run: matrix::blocked,
    },
    AccessKernel {
        name: "spmv",
        about: "product of a sparse matrix and a vector; an item is an entry of the matrix",
        items: matrix::sparse_items,
        usual_items: 30_000_000,
        run: matrix::sparse,
    },
    AccessKernel {
        name: "stencil",
        about: "mean of five points of a grid; an item is a point",
        items: matrix::stencil_items,
        usual_items: 80_000_000,
        run: matrix::stencil,
    },
    AccessKernel {
        name: "histogram",
        about: "counts of random keys; an item is a key",
        items: text::histogram_items,
        usual_items: 50_000_000,
        run: text::histogram,
    },
    AccessKernel {
        name: "string-search",
        about: "search of a word that is missing in a text; an item is a byte",
        items: text::search_items,
        usual_items: 80_000_000,
        run: text::string_search,
    },
    AccessKernel {
        name: "core-add",
        about: "chain of an addition and an exclusive or; an item is both",
        items: core::items,
        usual_items: 80_000_000,
        run: core::add,
    },
    AccessKernel {
        name: "core-multiply",
        about: "chain of a multiplication and an exclusive or",
        items: core::items,
        usual_items: 80_000_000,
        run: core::multiply,
    },
    AccessKernel {
        name: "core-divide",
        about: "chain of a division, an exclusive or and an or",
        items: core::items,
        usual_items: 20_000_000,
        run: core::divide,
    },
    AccessKernel {
        name: "core-float-add",
        about: "chain of floating-point additions",
        items: core::items,
        usual_items: 20_000_000,
        run: core::float_add,
    },
    AccessKernel {
        name: "core-float-multiply",
        about: "chain of floating-point multiplications",
        items: core::items,
        usual_items: 20_000_000,
        run: core::float_multiply,
    },
    AccessKernel {
        name: "core-float-divide",
        about: "chain of floating-point divisions",
        items: core::items,
        usual_items: 20_000_000,
        run: core::float_divide,
    },
    AccessKernel {
        name: "core-wide",
        about: "six independent chains of an addition and an exclusive or; an item is one step of all",
        items: core::items,
        usual_items: 20_000_000,
        run: core::wide,
    },
    AccessKernel {
        name: "core-mispredict",
        about: "branches on random bits; an item is a branch",
        items: core::items,
        usual_items: 20_000_000,
        run: core::mispredict,
    },
    AccessKernel {
        name: "core-forward",
        about: "chain of a store and a load of the same word; an item is both",
        items: core::items,
        usual_items: 80_000_000,
        run: core::forward,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unlike() {
        let mut names: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KERNELS.len());
    }

    #[test]
    fn a_run_can_be_repeated_and_does_something() {
        for kernel in &KERNELS {
            let [first, second, longer] = [1, 1, 2].map(|rounds| (kernel.run)(64 << 10, rounds));
            assert_eq!(first, second, "{}", kernel.name);
            assert_ne!(first, longer, "{}: a checksum that does not see the rounds", kernel.name);
            assert!((kernel.items)(64 << 10) > 0, "{}", kernel.name);
        }
    }
}
