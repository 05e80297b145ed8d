//! Loads and stores of a program: caches, core and far memory, as models.
//!
//! | module | holds |
//! |---|---|
//! | [`core`](mod@core) | out-of-order core: cycles of a window, with memory at several distances at once |
//! | [`heat`] | how often memory was asked for each page, by time |
//! | [`hierarchy`] | caches, TLBs and coherence: which level serves each access |
//! | [`instruction`] | decoded instructions, and blocks of them |
//! | [`placement`] | which pages are near and which far |
//! | [`processor`] | sizes of caches, by the processor's name |
//! | [`recording`] | file of windows, written while a program runs |
//! | [`summary`] | what a process did in all |
//! | [`window`] | a recorded stretch of one thread: blocks, accesses, where each was served |
//!
//! Nothing here reads a clock, a file or a processor: a program's run is an input (docs/decisions/0018-lines.md).
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
