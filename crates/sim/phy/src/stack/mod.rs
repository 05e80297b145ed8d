//! Network stacks of host and switch (§3.2.1, §3.2.2), a PCS cycle at a time.
//!
//! | module | |
//! |---|---|
//! | [`host`] | compute and memory node: queues, state tables, grants, timers, a line to each of two switches |
//! | [`switch`] | notifications, the scheduler, circuits |
//! | [`testbed`] | nodes, links, and one switch or two, in one clock |
//!
//! Durations of steps are those of [`unrack_protocol::edm::steps`], and the scheduler is that of the simulator.
//! Between two steps there are queues, whose entries carry the cycle from which on they may go.

pub mod host;
mod outbox;
pub mod switch;
pub mod testbed;

pub use host::{Completion, HostConfig, HostStack, MemoryController, Request, RequestOutcome};
pub use switch::{SwitchConfig, SwitchStack};
pub use testbed::{SwitchedLinks, Testbed};
