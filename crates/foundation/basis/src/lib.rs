//! Constants and functions that several crates must agree on: the hash FNV-1a, the random generator SplitMix64, the
//! page size.
//!
//! Names of files and ports, kept results and seeds depend on them, so none may change. It is a crate because of
//! linkage: it is `no_std` and needs no allocator and no operating system, since the pager uses it inside foreign programs, and
//! build scripts before anything is built.

#![no_std]
#![forbid(unsafe_code)]

mod fnv;
mod split_mix;

pub use fnv::{Fnv1a, Fnv1a32, fnv_1a, fnv_1a_32};
pub use split_mix::{GOLDEN_GAMMA, SplitMix64, mix, mix_13};

/// Bytes of a page on every supported machine.
pub const PAGE: usize = 4096;
