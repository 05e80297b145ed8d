//! Loads and stores of a program: caches, core and far memory, as models.
//!
//! | module | holds |
//! |---|---|
//! | [`instruction`] | decoded instructions, and blocks of them |
//! | [`recording`] | file of windows, written while a program runs |
//! | [`summary`] | what a process did in all |
//! | [`window`] | a recorded stretch of one thread: blocks, accesses, where each was served |
//!
//! Nothing here reads a clock, a file or a processor: a program's run is an input (docs/decisions/0018-lines.md).
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod instruction;
pub mod recording;
pub mod summary;
pub mod window;
