//! The simulator: fabrics, their registry, runs of scenarios, and results.
//!
//! [`scenario`] runs a checked scenario file; [`setup`] runs a fabric and a workload that are built in Rust. To learn
//! how a fabric works, begin with [`fabric`] and its submodule `ideal`.
//!
//! | module | holds |
//! |---|---|
//! | [`site`], [`cost`] | the network under a fabric, and the memory that a fabric needs |
//! | [`contract`] | the trait of a fabric that scenarios can name |
//! | [`fabric`] | one submodule per fabric |
//! | [`registry`] | the only list of fabrics that scenarios can name |
//! | [`scenario`] | conversion of a checked scenario file to a run |
//! | [`setup`] | a run of any fabric and any workload, without a file |
//! | [`observe`] | views of a run: links over time, packets, and where a message spent its time |
//! | [`memory`] | estimate of the memory that a scenario needs |
//! | [`summary`] | statistics of a run |
//! | [`mod@warnings`] | warnings that causes other than the fabric determine the statistics |
//! | [`mod@notes`], [`acted`] | notes about settings that never acted |
//!
//! The event loop, links, switches and topologies are in [`unrack_engine`], and the insides of hosts in
//! [`unrack_hosts`]. This crate exports the engine too, so that a crate that defines a fabric depends only on this
//! crate.
//!
//! Time is whole picoseconds. A run depends only on its inputs: the same scenario and seed give the same bytes.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod acted;
mod config;
pub mod contract;
pub mod cost;
pub mod fabric;
mod job;
pub mod memory;
pub mod notes;
pub mod observe;
pub mod registry;
pub mod scenario;
pub mod setup;
pub mod site;
pub mod summary;
pub mod warnings;
mod work;

pub use config::FabricConfig;
pub use contract::{AssumedBuffer, NoParams, Registered, SplitRun};
pub use job::Finished;
pub use memory::Need;
pub use notes::notes;
pub use registry::{check, known, register, register_topology, schema};
pub use setup::Setup;
pub use site::FabricSite;
pub use summary::{Excluded, Summary, SummaryLabels};
pub use unrack_engine as engine;
pub use unrack_engine::{
    BusyTimes, Core, Fabric, Hop, HostModel, LinkId, ObservedPacket, Observer, Outcome, PacketKind, Progress,
    Run, SetupError, Sim, Unobserved, WaitReason, error, faults, network, run, topology,
};
pub use warnings::warnings;
pub use work::Work;
