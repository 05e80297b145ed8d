//! Sans-IO protocol cores: the rules by which a simulated or live rack carries its traffic.
//!
//! A core has no clock, socket, thread or random source. Its driver reports events and their times (`handle_*`), asks
//! for the next action (`poll_*`), and keeps the core's timers. Each module cites its paper or standard and marks
//! where it departs from it. [`pfabric`] is short and therefore a good one to read first.
//! | module | holds |
//! |---|---|
//! | [`edm`], [`cxl`] | memory fabrics: EDM's switch scheduler, CXL.mem's links with credits |
//! | [`tcp`], [`mptcp`], [`dctcp`] | TCP's machinery, over one path or several; congestion control from ECN marks |
//! | [`dcqcn`] | congestion control over links that pause |
//! | [`homa`], [`phost`], [`ird`], [`ndp`] | receiver-driven transports |
//! | [`receiver_driven`] | common parts of the first three of these |
//! | [`pfabric`] | priority queues and minimal rate control |
//! | [`fastpass`] | time slots from a central arbiter |
//! | [`r2c2`], [`pfq`] | direct topologies: broadcast flows with computed rates; per-flow queues with back-pressure |
//! | [`segments`], [`turns`] | sets of segments; priority queue of numbered items |
//! | [`silence`] | limit on the silence of a peer |
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::iter_over_hash_type)]

pub mod cxl;
pub mod dcqcn;
pub mod dctcp;
pub mod edm;
pub mod fastpass;
pub mod homa;
pub mod ird;
pub mod mptcp;
pub mod ndp;
pub mod pfabric;
pub mod pfq;
pub mod phost;
pub mod r2c2;
pub mod receiver_driven;
pub mod segments;
pub mod silence;
pub mod tcp;
pub mod turns;
