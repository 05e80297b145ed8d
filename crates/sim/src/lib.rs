//! The simulated world: fabrics, their registry, runs of scenarios, and what they show.
//!
//! | module | holds |
//! |---|---|
//! | [`fabric`] | one leaf per fabric |
//! | [`registry`] | the fabrics that scenarios can name: here and only here they are listed |
//! | [`scenario`] | a run from a checked scenario file |
//! | [`setup`] | a run from plain parts: any fabric, any work |
//! | [`observe`] | more views of a run: links over time, packets, where a message spent its time |
//! | [`memory`] | how much memory a scenario will take |
//! | [`summary`] | the figures of a run |
//! | [`warnings`] | what decides the figures besides the fabric |
//!
//! The event loop, links, switches and topologies are [`unrack_engine`], the insides of hosts [`unrack_hosts`]; both are
//! reached from here too, so that a crate with a fabric of its own needs this one only.
//!
//! Time is whole picoseconds. A run depends on its inputs alone: the same scenario and seed give
//! the same bytes.
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
    FabricConfig, NoParams, Parts, Registered, Site, check, known, register, register_topology,
};
pub use setup::{Finished, Setup, Work};
pub use summary::{Excluded, Labels, Summary};
pub use unrack_engine as engine;
pub use unrack_engine::{
    BusyTimes, Core, Fabric, Hop, Inside, LinkId, ObservedPacket, Observer, Outcome, PacketKind, Progress,
    Run, SetupError, Sim, Unobserved, Wait, error, faults, network, run, topology,
};
pub use warnings::warnings;
