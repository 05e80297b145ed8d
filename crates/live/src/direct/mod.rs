//! Racks without switches, emulated: R2C2 in real time (the paper's Maze, §4.1).
//!
//! ```text
//! scenario --Plan::new--> Plan        (pure)
//!                          | Emulation::start
//!                         threads, each with several nodes; a link is a ring of packets between two of them
//! messages --Emulation::run--> Report: what became of each, what queues held, how late threads were
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what the rack is |
//! | [`node`] | what a node does, without clock or thread |
//! | [`line`] | the pace of a link |
//! | [`content`] | what flows carry, and whether it came |
//! | [`site`] | what the nodes of a thread have around them |
//! | [`thread`] | a thread that does the work of nodes |
//! | [`seeker`] | one that looks for better routings |
//! | [`tap`] | devices by which a machine's network reaches the rack |
//! | [`bell`] | how it sleeps, and is woken |
//! | [`report`] | what became of messages |
//! | [`emulation`] | all of it |
//! | [`udp`] | links between machines |
//! | [`seat`] | a rack that is up, and those who want something of it |
//!
//! - **A link's rate and delay are times.** Whoever queues a packet knows when it is at the other end, as in the simulator;
//!   the ring carries packet and time, and it is taken when that has come. No thread is busy only because a link is.
//! - **Packets are not copied on their way.** What a ring carries is the packet's place in memory; it is written once, by
//!   its source, but for the hops that nodes count, and its bytes are next read at its destination.
//! - **Silence is a failure.** Neighbours send each other keep-alives; what a node misses or hears again it tells all others, and
//!   each thread has the rack as its nodes know it. Keep-alives are in no count of packets.
//! - **Time is real.** A thread that is late makes packets late: how much is part of the report.

mod bell;
mod content;
mod emulation;
mod line;
mod node;
mod plan;
mod report;
mod seat;
mod seeker;
mod site;
mod tap;
mod thread;
mod udp;

pub use emulation::Emulation;
pub use node::{Counters, SLACK};
pub use plan::Plan;
pub use report::{Outcome, Report};
pub use seat::Seat;
pub use udp::Machines;
