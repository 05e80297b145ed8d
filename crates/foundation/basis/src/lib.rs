//! Constants and functions on which several crates must agree: the hash FNV-1a, the random generator SplitMix64, and the page size.
//!
//! None of them may change, because names of files and ports, kept results and seeds depend on them. This is a separate crate because of
//! how it is linked: it is `no_std` and needs neither an allocator nor an operating system, since the pager uses it inside foreign
//! programs, and build scripts use it.

#![no_std]
#![forbid(unsafe_code)]

mod fnv;
mod split_mix;

pub use fnv::{Fnv1a, Fnv1a32, fnv_1a, fnv_1a_32};
pub use split_mix::{GOLDEN_GAMMA, SplitMix64, mix, mix_13};

/// Bytes of a page on every supported machine.
pub const PAGE: usize = 4096;
