//! The simulator: fabrics, their registry, runs of scenarios, results.
//!
//! [`scenario`] runs a checked scenario file; [`setup`] runs a fabric and a workload built in Rust. To see how a fabric
//! works, begin with [`fabric`] and its leaf `ideal`.
//!
//! | module | holds |
//! |---|---|
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

pub mod fabric;
pub mod memory;
pub mod observe;
pub mod registry;
pub mod scenario;
pub mod setup;
pub mod summary;
pub mod warnings;

pub use memory::Need;
pub use registry::{
    AssumedBuffer, FabricConfig, NoParams, Parts, Registered, Site, check, known, register,
    register_topology, schema,
};
pub use setup::{Finished, Setup, Work};
pub use summary::{Excluded, Labels, Summary};
pub use unrack_engine as engine;
pub use unrack_engine::{
    BusyTimes, Core, Fabric, Hop, Inside, LinkId, ObservedPacket, Observer, Outcome, PacketKind, Progress,
    Run, SetupError, Sim, Unobserved, Wait, error, faults, network, run, topology,
};
pub use warnings::warnings;
