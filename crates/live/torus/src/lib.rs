//! Emulated racks without switches: R2C2 in real time (the paper's Maze, §4.1).
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
//! | [`node`] | a node: the protocol's node, with packets as bytes; it has no clock or thread |
//! | [`line`] | timing of packets on a link |
//! | [`content`] | content of flows, and its verification |
//! | [`site`] | surroundings of the nodes of one thread |
//! | [`thread`] | a thread that does the work of several nodes |
//! | [`seeker`] | a thread that searches for better routings |
//! | [`tap`] | devices through which a machine's network reaches the rack |
//! | [`sleep`] | how a thread sleeps, and is woken |
//! | [`report`] | outcomes of messages |
//! | [`emulation`] | the whole rack |
//! | [`udp`] | links between machines |
//! | [`rack_state`] | a rack that is running, and requests to it |
//!
//! - **The rate and delay of a link are times.** The node that queues a packet computes when the packet arrives at the other end, as in the
//!   simulator. The ring carries the packet with this time, and the receiving thread takes the packet when the time has come. Therefore a
//!   busy link does not keep a thread busy.
//! - **Packets are not copied on their way.** A ring carries only the location of a packet in memory. The source writes the packet once,
//!   nodes on its way update only the hop count, and the destination reads the payload.
//! - **Silence is a failure.** Neighbours send each other keep-alives. A node broadcasts which neighbours fall silent or are heard again,
//!   and each thread keeps the state of the rack as its nodes know it. Keep-alives do not count as packets.
//! - **Time is real.** A late thread delays packets; the report states by how much.
// One system call has no safe interface: see `tap.rs`.
#![deny(unsafe_code)]

mod content;
mod emulation;
mod line;
mod node;
mod plan;
mod rack_state;
mod report;
mod seeker;
mod site;
mod sleep;
mod tap;
mod thread;
mod udp;

pub use emulation::Emulation;
pub use node::LiveCounters;
pub use plan::{SLACK, TorusPlan};
pub use rack_state::RackState;
pub use report::{LiveOutcome, LiveReport};
pub use udp::Machines;
