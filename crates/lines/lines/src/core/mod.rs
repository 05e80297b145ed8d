//! Out-of-order core, which tells how long a recorded window takes with memory near or far.
//!
//! | type | job |
//! |---|---|
//! | [`CoreReplay`] | runs windows in up to 16 lanes, each with its own placement and latencies |
//! | [`CycleAccount`] | what the time of one lane went to, and how many of its misses overlapped |
//! | [`WindowSample`] | estimates a thread's cycles and slowdown from its windows, with intervals |
//! | [`FarRequests`] | finds far requests and what each waits for; runs windows with given latencies of each |
//!
//! # Model
//! - **Fetch** takes a group of instructions a cycle, up to a taken branch, and runs ahead of dispatch by 24 groups: lines of code that
//!   the first level lacks are asked for then.
//! - **Dispatch** of some slots a cycle; it waits for room in the reorder buffer, the queues of loads and stores and the
//!   scheduler, and for ports where one kind of operation comes faster than they take it. **Retirement** is in order.
//! - **Inputs** are registers, and bytes that a recent store wrote; addresses come before data.
//! - **Loads** take a page walk where the recorder saw one, then their level's latency; beyond the first level also a fill
//!   buffer. A line on its way is waited for, whoever asked for it.
//! - **Stores** retire without their line, ask for it then, and leave the store queue in order once it is there.
//! - **Mispredicted branches** let dispatch begin anew after their completion and a penalty.
//! - **Memory** sends one line at a time on each way, near and far.
//!
//! Every time is a sum or a maximum of earlier ones, so nothing ends earlier because something else ends later.
//!
//! Left out: decoding, targets of branches that are not yet known, lines that only the wrong path asks for, replays of loads, banks
//! and rows of memory, and its latency under load beyond the wait for the way.

mod account;
mod arrivals;
mod buffers;
mod estimate;
mod front;
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

pub use account::CycleAccount;
pub use estimate::{Estimate, EstimateError, WindowSample};
pub use parameters::{
    CacheLatencies, CoreError, CoreParameters, CorePorts, Lane, MemoryParameters, NearPages,
    OperationLatencies,
};
pub use replay::{CoreReplay, WindowCycles};
pub use requests::{After, FarRequests, LineRequest, WindowRequests};

/// Lanes that are simulated at once.
pub const LANES: usize = 16;
