//! EDM's network stacks of hosts and switches (§3.2.1, §3.2.2), simulated one PCS clock cycle at a time.
//!
//! | module | |
//! |---|---|
//! | [`host`] | compute and memory node: queues, state tables, grants, timers, a line to each of two switches |
//! | [`switch`] | notifications, the scheduler, circuits |
//! | [`testbed`] | nodes, links, and one switch or two, in one clock |
//!
//! The processing steps of a stack take the number of cycles that [`unrack_protocol::edm::steps`] gives, and the switch uses the same
//! scheduler as the simulator. Between two steps there is a queue. Each entry of a queue contains the first cycle in which it may leave.

pub mod host;
mod outbox;
pub mod switch;
pub mod testbed;

pub use host::{Completion, HostConfig, HostStack, MemoryController, Request, RequestOutcome};
pub use switch::{SwitchConfig, SwitchStack};
pub use testbed::{SwitchedLinks, Testbed};
