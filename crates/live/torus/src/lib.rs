//! Racks without switches, emulated: R2C2 in real time (the paper's Maze, §4.1).
//!
//! ```text
//! scenario --TorusPlan::new--> TorusPlan        (pure)
//!                               | Emulation::start
//!                              threads, each with several nodes; a link is a ring of packets between two of them
//! messages --Emulation::run--> LiveReport: outcomes of messages, queue lengths, delays by threads
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | static description of the rack |
//! | [`node`] | a node: the protocol's, and packets as bytes; without clock or thread |
//! | [`line`] | the pace of a link |
//! | [`content`] | content of flows, and its verification |
//! | [`site`] | surroundings of the nodes of one thread |
//! | [`thread`] | a thread that does the work of several nodes |
//! | [`seeker`] | a thread that searches for better routings |
//! | [`tap`] | devices by which a machine's network reaches the rack |
//! | [`sleep`] | how a thread sleeps, and is woken |
//! | [`report`] | outcomes of messages |
//! | [`emulation`] | the whole rack |
//! | [`udp`] | links between machines |
//! | [`seat`] | a rack that is up, and requests to it |
//!
//! - **A link's rate and delay are times.** The node that queues a packet computes when it arrives at the other end,
//!   as in the simulator. The ring carries packet and time, and the packet is taken when that time has come. No thread
//!   is busy only because a link is.
//! - **Packets are not copied on their way.** A ring carries a packet's place in memory. The packet is written once,
//!   by its source, except for the hop count that nodes update, and its payload is next read at its destination.
//! - **Silence is a failure.** Neighbours send each other keep-alives. A node broadcasts which neighbours fall silent
//!   or are heard again, and each thread keeps the rack as its nodes know it. Keep-alives are in no count of packets.
//! - **Time is real.** A late thread delays packets; the report says by how much.
// One request to the kernel has no safe interface: `tap.rs`.
#![deny(unsafe_code)]

mod content;
mod emulation;
mod line;
mod node;
mod plan;
mod report;
mod seat;
mod seeker;
mod site;
mod sleep;
mod tap;
mod thread;
mod udp;

pub use emulation::Emulation;
pub use node::LiveCounters;
pub use plan::{SLACK, TorusPlan};
pub use report::{LiveOutcome, LiveReport};
pub use seat::Seat;
pub use udp::Machines;
