//! Small programs with a known memory access pattern: `unrack-lines-kernels NAME [SIZE] [--rounds N]`.
//!
//! A kernel uses fixed random seeds, so that every run executes the same work, and prints a checksum. SIZE is the size
//! of its working set: `cache` (2 MiB), `memory` (64 MiB), or a number of bytes with `K`, `M` or `G`. Without
//! `--rounds`, the program chooses the number of rounds so that the total work of a kernel is the same at each size. If
//! the working set fits into the caches, this work takes between 0.01 s and 1 s on a core of the year 2020.
#![forbid(unsafe_code)]

mod core;
mod graph;
mod lookup;
mod matrix;
mod pointers;
mod request;
mod sorting;
mod stream;
mod table;
mod text;

pub use graph::SparseGraph;

use request::Request;
use std::process::ExitCode;

/// Runs the kernel that the command line of this process names, and returns the exit code of the process.
pub fn run() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Request::parse(&words) {
        Ok(Request::Help) => print!("{}", request::help()),
        Ok(Request::List) => table::KERNELS.iter().for_each(|kernel| println!("{}", kernel.name)),
        Ok(Request::Run { kernel, bytes, rounds }) => {
            let items = (kernel.items)(bytes).saturating_mul(rounds);
            let checksum = (kernel.run)(bytes, rounds);
            println!("{} bytes {bytes} rounds {rounds} items {items} checksum {checksum:016x}", kernel.name);
        }
        Err(message) => {
            eprintln!("unrack-lines-kernels: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
