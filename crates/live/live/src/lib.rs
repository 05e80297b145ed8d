//! State of live racks: folders with the rack's files, its lock and the socket of its process; and what every kind of live rack
//! uses besides: errors, and `ip` and `tc`.
//!
//! It is a crate because `guests`, `namespaces` and `torus`, which do not know each other, and `cli` share it.
#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod iproute2;
mod rack_folder;

pub use error::Error;
pub use rack_folder::{RackFiles, RackFolder};
