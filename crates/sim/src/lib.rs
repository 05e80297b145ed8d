//! The simulator: event engine, networks, fabrics, runs, results.
//!
//! [`scenario`] runs a checked scenario file; [`setup`] runs a fabric and a workload built in Rust. To see how a fabric
//! works, begin with [`fabric`] and its leaf `ideal`.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | time, the event queue, the run loop; what a fabric may do ([`Core`]) |
//! | [`fabric`] | the [`Fabric`] contract, and one leaf per fabric |
//! | [`network`] | parts of fabrics: link pace, ports with known departures, the star |
//! | [`topology`] | wiring of nodes and switches, and the path of a packet |
//! | [`faults`] | links and switches that fail, bits that flip |
//! | [`host`] | insides of nodes: memory, NICs, cores, a cache |
//! | [`observe`] | views of a run: links over time, packets, where a message spent its time |
//! | [`registry`] | the only list of fabrics that scenarios can name |
//! | [`setup`] | a run of any fabric and any workload, without a file |
//! | [`scenario`] | a run of a checked scenario file |
//! | [`memory`] | estimate of the memory that a scenario takes |
//! | [`run`] | results of a run: messages, outcomes, counters |
//! | [`summary`] | statistics of a run |
//! | [`warnings`] | causes other than the fabric that decide the statistics |
//!
//! Time is whole picoseconds. A run depends only on its inputs: the same scenario and seed give the same bytes.
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
