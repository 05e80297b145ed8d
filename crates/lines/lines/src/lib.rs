//! Models of a program's memory accesses: caches, an out-of-order core, and local and remote memory.
//!
//! | module | contents |
//! |---|---|
//! | [`core`](mod@core) | out-of-order core: cycles that a recorded window takes with several memory configurations |
//! | [`heat`] | how often the lines of each page were requested from memory, over time |
//! | [`hierarchy`] | caches, TLBs and coherence: which level serves each access |
//! | [`instruction`] | decoded instructions, and basic blocks of instructions |
//! | [`placement`] | which pages are in local memory and which are in remote memory |
//! | [`processor`] | cache and TLB sizes, by the processor's name |
//! | [`recording`] | file of recorded windows, written while a program runs |
//! | [`summary`] | totals of a process over its whole run |
//! | [`window`] | recorded interval of one thread: code blocks, accesses, and the level that served each access |
//!
//! The crate does not read a clock, the file system or any property of the host; its input is the recorded run of a
//! program. The same recording therefore gives the same result on every machine. See docs/decisions/0018-lines.md.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

mod cache;
pub mod core;
mod full;
pub mod heat;
pub mod hierarchy;
pub mod instruction;
pub mod placement;
pub mod processor;
pub mod recording;
pub mod summary;
mod tlb;
pub mod window;
