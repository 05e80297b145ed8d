//! Benchmark of the simulated caches: nanoseconds of simulation per access, for working sets that different cache
//! levels serve.
//!
//! Run it with `cargo bench -p unrack-lines --bench hierarchy`. Each pass accesses one working set cyclically. The
//! benchmark prints the minimum over the passes. Under `cargo test`, it executes fewer accesses and passes.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant;
use unrack_lines::hierarchy::{Hierarchy, Kind, Request};
use unrack_lines::placement::PagePlacement;
use unrack_lines::processor::Processor;

fn main() {
    let is_measured = std::env::args().any(|word| word == "--bench");
    let (accesses, passes) = if is_measured { (4_000_000, 5) } else { (10_000, 1) };
    let processor = Processor::by_name("zen3").expect("the processor is known");
    println!("{:>12}{:>8}{:>10}{:>10}{:>8}", "working set", "stride", "load", "store", "misses");
    for (kib, stride) in [(4, 8), (16, 64), (256, 64), (8 << 10, 64), (256 << 10, 64), (256 << 10, 4160)] {
        let run = |kind| {
            let mut hierarchy = Hierarchy::new(&processor, 1, &[PagePlacement::AllFar])
                .expect("the processor can be simulated");
            cycle(&mut hierarchy, kib << 10, stride, accesses, kind);
            hierarchy.forget_counts();
            let pass = |hierarchy: &mut Hierarchy| {
                let start = Instant::now();
                cycle(hierarchy, kib << 10, stride, accesses, kind);
                start.elapsed().as_nanos() as f64 / accesses as f64
            };
            let best = (0..passes).map(|_| pass(&mut hierarchy)).fold(f64::INFINITY, f64::min);
            let counters = hierarchy.counters(0);
            (best, counters.misses() as f64 / counters.accesses() as f64)
        };
        let ((load, misses), (store, _)) = (run(Kind::Load), run(Kind::Store));
        println!("{:>8} KiB{stride:>8}{load:>10.1}{store:>10.1}{misses:>8.2}", kib);
    }
}

fn cycle(hierarchy: &mut Hierarchy, bytes: u64, stride: u64, accesses: u64, kind: Kind) {
    let mut address = 0;
    for _ in 0..accesses {
        black_box(hierarchy.access(&Request {
            thread: 0,
            address: black_box(address),
            kind,
            instruction: 0,
        }));
        address += stride;
        if address >= bytes {
            address -= bytes;
        }
    }
}
