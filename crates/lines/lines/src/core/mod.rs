//! Model of an out-of-order core. It computes how many cycles a recorded window of instructions takes if its pages are
//! in near or remote memory.
//!
//! | type | job |
//! |---|---|
//! | [`CoreReplay`] | executes recorded windows in up to 16 lanes with different placements of pages and latencies |
//! | [`CycleAccount`] | attributes the cycles of one lane to causes, and states how many of its cache misses overlap |
//! | [`WindowSample`] | estimates a thread's cycles and slowdown from its windows, with confidence intervals |
//! | [`FarRequests`] | finds requests to remote memory and their dependences; executes windows with given latencies of these requests |
//!
//! A *lane* is one configuration of memory. The core executes the same window in all lanes simultaneously, so that the
//! results of two lanes differ only because of their memory.
//!
//! # Model
//! - **Fetch** takes a group of instructions per cycle, up to a taken branch. It runs ahead of dispatch by up to 24
//!   groups. When fetch reaches a code line that is not in the first-level cache, it requests the line.
//! - **Dispatch** takes a fixed number of slots per cycle. It waits for room in the reorder buffer, in the load and
//!   store queues and in the scheduler. It also waits for execution ports if operations of one kind arrive faster than
//!   their ports accept them.
//! - **Retirement** is in order.
//! - **Inputs** of an instruction are registers, and bytes in memory that a recent store wrote. The registers of an
//!   instruction's address are needed before its other inputs.
//! - **Loads** take the time of a page walk if the recorder recorded one, and then the latency of the cache level or
//!   memory that served them. A load that the first-level cache does not serve also occupies a fill buffer. A load of a
//!   line that is already in flight waits for this line.
//! - **Stores** retire before their lines arrive. A store requests its line at retirement. Stores leave the store queue
//!   in order, each after its line has arrived.
//! - **Mispredicted branches** delay the next dispatch until the branch has completed, plus a penalty.
//! - **Memory** transfers one line at a time over each channel, near and far.
//!
//! Every time in the model is a sum or a maximum of earlier times. Therefore no event ends earlier because another
//! event ends later.
//!
//! Not modelled: decoding, branch targets that are unknown before decoding, lines that only the wrong path requests,
//! replays of loads, banks and rows of memory, and any increase of memory latency under load except for the wait for a
//! channel.

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

/// Maximum number of lanes that are simulated simultaneously.
pub const LANES: usize = 16;
