//! Protocol cores without I/O: implementations of transport protocols, which a simulated rack and a live rack use in
//! the same way.
//!
//! A core has no clock, socket, thread or random source. Its driver, which is the simulator or the live rack, reports
//! events and their times to the core (`handle_*`), asks the core for its next action (`poll_*`), and runs the core's
//! timers. Each module cites the paper or standard of its protocol, and marks each difference from it with "Departure".
//! [`pfabric`] is short and therefore a good module to read first.
//!
//! | module | holds |
//! |---|---|
//! | [`edm`], [`cxl`] | memory fabrics: EDM's switch scheduler, CXL.mem's links with credits |
//! | [`tcp`], [`mptcp`], [`dctcp`] | TCP over one path; TCP over several paths; congestion control that reacts to ECN marks |
//! | [`dcqcn`] | congestion control for RoCE, over links that pause instead of dropping packets |
//! | [`homa`], [`phost`], [`ird`], [`ndp`] | receiver-driven transports |
//! | [`receiver_driven`] | common parts of `homa`, `phost` and `ird` |
//! | [`pfabric`] | priority queues and minimal rate control |
//! | [`fastpass`] | a central arbiter assigns timeslots to packets |
//! | [`r2c2`], [`pfq`] | direct topologies: nodes broadcast flows and compute their rates; per-flow queues with back-pressure |
//! | [`segments`], [`turns`] | sets of the segments of a transfer; priority queue of numbered items |
//! | [`silence`] | how long an end waits for a silent peer before it gives up |
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
