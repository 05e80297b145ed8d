//! Out-of-order core, which computes how long a recorded window takes with memory near or far.
//!
//! | type | job |
//! |---|---|
//! | [`CoreReplay`] | runs windows in up to 16 lanes, each with its own placement and latencies |
//! | [`CycleAccount`] | attributes the cycles of one lane to causes, and gives the overlap of its misses |
//! | [`WindowSample`] | estimates a thread's cycles and slowdown from its windows, with confidence intervals |
//! | [`FarRequests`] | finds far requests and their dependences; runs windows with a given latency for each |
//!
//! A *lane* is one configuration of memory. All lanes execute the same window simultaneously, so that their
//! differences come from memory alone.
//!
//! # Model
//! - **Fetch** takes a group of instructions per cycle, up to a taken branch. It runs ahead of dispatch by up to 24
//!   groups, and requests the code lines that the first level lacks when it reaches them.
//! - **Dispatch** takes a fixed number of slots per cycle. It waits for room in the reorder buffer, in the load and
//!   store queues and in the scheduler, and for execution ports if one kind of operation arrives faster than its
//!   ports accept it.
//! - **Retirement** is in order.
//! - **Inputs** of an instruction are registers, and bytes that a recent store wrote. Addresses are needed before
//!   data.
//! - **Loads** take a page walk if the recorder saw one, then the latency of the level that served them. Beyond the
//!   first level they also occupy a fill buffer. A load of a line that is in flight waits for it, whichever access
//!   requested it.
//! - **Stores** retire without their line. They request it at retirement and leave the store queue in order, once the
//!   line has arrived.
//! - **Mispredicted branches** delay the next dispatch until they complete, plus a penalty.
//! - **Memory** transfers one line at a time over each channel, near and far.
//!
//! Every time in the model is a sum or a maximum of earlier times. Therefore no event ends earlier because another
//! one ends later.
//!
//! Not modelled: decoding, branch targets that are unknown before decoding, lines that only the wrong path requests,
//! replays of loads, banks and rows of memory, and latency under load beyond the wait for the channel.

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
    CacheLatencies, CoreError, CoreParameters, CorePorts, MemoryLane, MemoryParameters, NearPages,
    OperationLatencies,
};
pub use replay::{CoreReplay, WindowCycles};
pub use requests::{After, FarRequests, LineRequest, WindowRequests};

/// Number of lanes that are simulated at once.
pub const LANES: usize = 16;
