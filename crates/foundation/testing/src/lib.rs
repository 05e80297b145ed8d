//! Helpers shared by the tests of all crates. It is a crate because only tests link it: nothing of it is shipped.
//!
//! - [`skip`] reports that a test needs something that this machine lacks.
//! - [`Folder`] is a folder of one test, in which a name that was not created does not exist.
//! - [`ClosedPort`] is a port without a listener.
#![forbid(unsafe_code)]

mod folder;
mod port;
mod skips;

pub use folder::Folder;
pub use port::ClosedPort;
pub use skips::{Needed, skip};
