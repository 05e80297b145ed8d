//! Helpers for the tests of all crates. This is a separate crate because only tests link it, so that none of it is shipped.
//!
//! - [`skip`] reports that a test is skipped because this machine lacks a requirement.
//! - [`Folder`] is a new folder for one test, which contains only the files that the test creates.
//! - [`ClosedPort`] is a port without a listener.
#![forbid(unsafe_code)]

mod folder;
mod port;
mod skips;

pub use folder::TestFolder;
pub use port::ClosedPort;
pub use skips::{TestRequirement, skip};
