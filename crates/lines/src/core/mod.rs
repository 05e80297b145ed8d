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

mod account;
mod arrivals;
mod buffers;
mod estimate;
mod machine;
mod memory;
mod parameters;
mod ports;
mod presets;
mod program;
mod replay;
mod requests;
mod ring;
mod scheduler;
mod stores;
#[cfg(test)]
mod tests;
mod time;
mod watch;

pub use account::Account;
pub use estimate::{Estimate, EstimateError, Sample};
pub use parameters::{
    CacheLatencies, CoreError, CoreParameters, Lane, MemoryParameters, OperationLatencies, Pages, Ports,
};
pub use replay::{Replay, WindowCycles};
pub use requests::{After, LineRequest, Requests, WindowRequests};

/// Lanes that are simulated at once.
pub const LANES: usize = 16;
