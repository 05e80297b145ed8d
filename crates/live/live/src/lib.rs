//! Parts that all kinds of live rack need: errors, folders of their state, and the tools that configure Linux networks.
#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod iproute2;

pub use error::Error;
