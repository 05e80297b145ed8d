//! What the tests of all rooms share, and nothing that is shipped.
//!
//! - [`skip`] says aloud that a test needs something that this machine lacks.
//! - [`Folder`] is a folder of a test's own, in which a name that was not made is not there.
//! - [`ClosedPort`] is a port on which nobody listens.
#![forbid(unsafe_code)]

mod folder;
mod port;
mod skips;

pub use folder::Folder;
pub use port::ClosedPort;
pub use skips::{Needed, skip};
