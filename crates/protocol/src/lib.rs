//! Sans-IO protocol cores: how a simulated or real rack carries its traffic.
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
