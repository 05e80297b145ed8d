//! Network stacks of host and switch (§3.2.1, §3.2.2), simulated one PCS cycle at a time.
//!
//! | module | |
//! |---|---|
//! | [`host`] | compute and memory node: queues, state tables, grants, timers, a line to each of two switches |
//! | [`switch`] | notifications, the scheduler, circuits |
//! | [`testbed`] | nodes, links, and one switch or two, in one clock |
//!
//! The durations of steps are those of [`unrack_protocol::edm::steps`], and the scheduler is that of the simulator.
//! Between two steps there are queues, each entry of which contains the cycle from which on it may leave.

pub mod host;
mod outbox;
pub mod switch;
pub mod testbed;

pub use host::{Completion, HostConfig, HostStack, MemoryController, Request, RequestOutcome};
pub use switch::{SwitchConfig, SwitchStack};
pub use testbed::{SwitchedLinks, Testbed};
