//! Common parts of live racks: the state folder, with the rack's files, its lock and the socket of its process; the error type; and calls
//! of `ip` and `tc`.
//!
//! It is a crate because `guests`, `namespaces` and `torus`, which do not depend on each other, and `cli` share it.
#![forbid(unsafe_code)]

mod error;
pub mod folder;
pub mod iproute2;
mod rack_folder;

pub use error::Error;
pub use rack_folder::{RackFiles, RackFolder};
