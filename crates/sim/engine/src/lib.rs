//! The event engine and the simulated network, on which fabrics are built.
//!
//! | module | holds |
//! |---|---|
//! | [`events`] | time, the event queue, the run loop, runs that are split over threads |
//! | [`fabric`] | the [`Fabric`] contract: a fabric carries messages and handles the events that it scheduled |
//! | [`network`] | parts from which fabrics are built: links, ports with known departures, the star |
//! | [`topology`] | the wiring of nodes and switches, and the paths of packets |
//! | [`faults`] | failures of links and switches, and bit errors |
//! | [`inside`] | the components inside nodes that take time, as plain data |
//! | [`run`] | the results of a run: messages, outcomes, counters |
//! | [`error`] | why a run cannot be set up or cannot continue |
//!
//! This crate knows no protocol and no scenario file. Time is counted in whole picoseconds. A run depends only on its
//! inputs: the same source, fabric and seed give the same bytes.
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
    BusyTimes, Core, Counters, EventQueue, Hop, LinkId, Mechanism, ObservedPacket, Observer, PacketKind,
    Progress, Sim, Split, Tie, Tied, Unobserved, WaitReason, run_split,
};
pub use fabric::{Fabric, Largest};
pub use inside::{HostCounts, HostModel};
pub use link::PacketSize;
pub use run::{Ending, Outcome, Run};
