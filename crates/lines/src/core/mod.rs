//! Out-of-order core, which tells how long a recorded window takes with memory near or far.
//!
//! | module | holds |
//! |---|---|
//! | `parameters` | numbers of a core, and lanes: where pages are and how far that is |
//! | `replay` | runs of windows in several lanes at once |
//! | `machine` | the scoreboard: dispatch, inputs, retirement, stores |
//! | `memory` | latency and rate of memory, near and far |
//!
//! Left out: fetch and decoding except for mispredicted branches, execution ports and schedulers, and the wrong path.

mod arrivals;
mod buffers;
mod machine;
mod memory;
mod parameters;
mod program;
mod replay;
mod ring;
mod stores;
#[cfg(test)]
mod tests;
mod time;
mod watch;

pub use parameters::{
    CacheLatencies, CoreError, CoreParameters, Lane, MemoryParameters, OperationLatencies, Pages,
};
pub use replay::{Replay, WindowCycles};

/// Lanes that are simulated at once.
pub const LANES: usize = 16;
