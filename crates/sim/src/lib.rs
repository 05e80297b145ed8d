//! The simulated world: event engine, ports, fabrics, runs, metrics.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | time, the event queue, the run loop; what a fabric may do ([`Core`]) |
//! | [`fabric`] | the [`Fabric`] contract, and one leaf per fabric |
//! | [`network`] | what fabrics are built from: link pace, ports with known departures, the star |
//! | [`topology`] | who is wired to whom, and which way a packet goes |
//! | [`faults`] | links and switches that fail, bits that flip |
//! | [`host`] | what is inside nodes: memory, NICs, cores, a cache |
//! | [`observe`] | what is seen of a run besides: links over time, packets, where a message spent its time |
//! | [`setup`] | a run from plain parts: any fabric, any work |
//! | [`scenario`] | the same from a checked scenario file |
//! | [`memory`] | how much memory a scenario will take |
//! | [`run`] | what a run leaves behind: messages, outcomes, counters |
//! | [`summary`] | its figures |
//! | [`warnings`] | what decides the figures beside the fabric |
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
pub use run::{Outcome, Run};
pub use setup::{FabricConfig, Finished, Setup, Work};
pub use summary::{Excluded, Labels, Summary};
pub use warnings::warnings;
