//! The simulator: fabrics, their registry, runs of scenarios, results.
//!
//! [`scenario`] runs a checked scenario file; [`setup`] runs a fabric and a workload built in Rust. To see how a fabric
//! works, begin with [`fabric`] and its leaf `ideal`.
//!
//! | module | holds |
//! |---|---|
//! | [`site`], [`cost`] | the network under a fabric, and the memory that a fabric takes |
//! | [`contract`] | what a fabric that scenarios can name implements |
//! | [`fabric`] | one leaf per fabric |
//! | [`registry`] | the only list of fabrics that scenarios can name |
//! | [`scenario`] | a run of a checked scenario file |
//! | [`setup`] | a run of any fabric and any workload, without a file |
//! | [`observe`] | views of a run: links over time, packets, where a message spent its time |
//! | [`memory`] | estimate of the memory that a scenario takes |
//! | [`summary`] | statistics of a run |
//! | [`mod@warnings`] | causes other than the fabric that decide the statistics |
//!
//! The event loop, links, switches and topologies are [`unrack_engine`], the insides of hosts [`unrack_hosts`]; both are
//! reached from here too, so that a crate with a fabric of its own needs this one only.
//!
//! Time is whole picoseconds. A run depends only on its inputs: the same scenario and seed give the same bytes.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

mod config;
pub mod contract;
pub mod cost;
pub mod fabric;
mod job;
pub mod memory;
pub mod observe;
pub mod registry;
pub mod scenario;
pub mod setup;
pub mod site;
pub mod summary;
pub mod warnings;
mod work;

pub use config::FabricConfig;
pub use contract::{AssumedBuffer, NoParams, Parts, Registered};
pub use job::Finished;
pub use memory::Need;
pub use registry::{check, known, register, register_topology, schema};
pub use setup::Setup;
pub use site::Site;
pub use summary::{Excluded, Labels, Summary};
pub use unrack_engine as engine;
pub use unrack_engine::{
    BusyTimes, Core, Fabric, Hop, Inside, LinkId, ObservedPacket, Observer, Outcome, PacketKind, Progress,
    Run, SetupError, Sim, Unobserved, Wait, error, faults, network, run, topology,
};
pub use warnings::warnings;
pub use work::Work;
