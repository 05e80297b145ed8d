//! What is written down: run folders, manifests and Parquet tables.
//!
//! | to | use |
//! |---|---|
//! | make or open the folder of a run | [`RunFolder`] |
//! | say what was run, where and when | [`Started`], [`Manifest`], [`Host`] |
//! | hold the result of a comparison, of a sweep | [`Comparison`], [`Sweep`] |
//! | write and read tables | [`trace`], [`completions`], [`messages`], [`ports`] |
//! | write packet captures | [`pcapng`] |
//! | write waveforms | [`waves`] |
//! | take page numbers apart | [`page_space`] |
//! | replace any other file in one step | [`atomic_write`], [`AtomicFile`] |
//!
//! A file is complete or absent: everything is written aside and renamed. What is read is checked,
//! and an error names the file and the column, row, line or key. Tables written by other programs
//! are read if they have the columns and the metadata.
#![forbid(unsafe_code)]

pub mod completions;
pub mod messages;
pub mod page_space;
pub mod pcapng;
pub mod ports;
pub mod trace;
pub mod waves;

mod atomic;
mod comparison;
mod error;
mod host;
mod manifest;
mod map;
mod run_folder;
#[cfg(test)]
mod scratch;
mod sweep;
mod table;

pub use atomic::{AtomicFile, atomic_write};
pub use comparison::*;
pub use error::RecordError;
pub use host::Host;
pub use manifest::{Manifest, Started};
pub use map::*;
pub use run_folder::{RunFolder, read_json, write_json};
pub use sweep::*;
