//! The simulated world: event engine, ports, fabrics, runs, metrics.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | time, the event queue, the run loop; what a fabric may do ([`Core`]) |
//! | [`fabric`] | the [`Fabric`] contract, and one leaf per fabric |
//! | [`network`] | what fabrics are built from: link pace, ports with known departures, the star |
//! | [`topology`] | how nodes and switches are wired, and which path a packet takes |
//! | [`faults`] | links and switches that fail, bits that flip |
//! | [`host`] | what is inside nodes: memory, NICs, cores, a cache |
//! | [`observe`] | more views of a run: links over time, packets, where a message spent its time |
//! | [`registry`] | the fabrics that scenarios can name: here and only here they are listed |
//! | [`setup`] | a run from plain parts: any fabric, any work |
//! | [`scenario`] | a run from a checked scenario file |
//! | [`memory`] | how much memory a scenario will take |
//! | [`run`] | the results of a run: messages, outcomes, counters |
//! | [`summary`] | the figures of a run |
//! | [`warnings`] | what decides the figures besides the fabric |
//!
//! Time is whole picoseconds. A run depends on its inputs alone: the same scenario and seed give
//! the same bytes.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod engine;
pub mod error;
pub mod fabric;
pub mod faults;
pub mod host;
pub mod memory;
pub mod network;
pub mod observe;
pub mod registry;
pub mod run;
pub mod scenario;
pub mod setup;
pub mod summary;
pub mod topology;
pub mod warnings;

pub use engine::{
    BusyTimes, Core, Hop, LinkId, Observer, Packet, PacketKind, Progress, Sim, Unobserved, Wait,
};
pub use error::SetupError;
pub use fabric::Fabric;
pub use memory::Need;
pub use registry::{
    FabricConfig, NoParams, Parts, Registered, Site, check, known, register, register_topology,
};
pub use run::{Outcome, Run};
pub use setup::{Finished, Setup, Work};
pub use summary::{Excluded, Labels, Summary};
pub use warnings::warnings;
