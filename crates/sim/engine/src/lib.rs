//! The event engine and the network of the simulated world: what fabrics are built on.
//!
//! | module | holds |
//! |---|---|
//! | [`events`] | time, the event queue, the run loop, runs that are split over threads |
//! | [`fabric`] | the [`Fabric`] contract: what carries messages, and is told of its own events |
//! | [`network`] | what fabrics are built from: links, ports with known departures, the star |
//! | [`topology`] | how nodes and switches are wired, and which path a packet takes |
//! | [`faults`] | links and switches that fail, bits that flip |
//! | [`inside`] | what takes time inside nodes, as plain data |
//! | [`run`] | the results of a run: messages, outcomes, counters |
//! | [`error`] | why a run cannot be set up, or cannot go on |
//!
//! No protocol and no scenario file is known here. Time is whole picoseconds. A run depends on its inputs alone: the
//! same source, fabric and seed give the same bytes.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod error;
pub mod events;
pub mod fabric;
pub mod faults;
pub mod inside;
mod link;
pub mod network;
pub mod run;
pub mod topology;

pub use error::SetupError;
pub use events::{
    BusyTimes, Core, Counters, EventQueue, Hop, LinkId, ObservedPacket, Observer, PacketKind, Progress, Sim,
    Split, Tie, Tied, Unobserved, Wait, run_split,
};
pub use fabric::{Fabric, Largest};
pub use inside::{HostCounts, Inside};
pub use link::PacketSize;
pub use run::{Ending, Outcome, Run};
