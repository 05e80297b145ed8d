//! Common ground of the racks that run on this machine, those of namespaces and those without switches: reasons why one
//! cannot be used, folders of their state, and the tools that configure Linux networks.
#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod iproute2;

pub use error::Error;
