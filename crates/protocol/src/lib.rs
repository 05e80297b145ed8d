//! How traffic is carried: sans-IO protocol cores.
#![forbid(unsafe_code)]

pub mod cxl;
pub mod dctcp;
pub mod edm;
pub mod tcp;
