//! Records on disk: run folders, manifests and Parquet tables.
//!
//! | to | use |
//! |---|---|
//! | make or open the folder of a run | [`RunFolder`] |
//! | describe a run: its build, machine and time | [`StartedCommand`], [`Manifest`], [`Build`], [`Machine`], [`HostRow`] |
//! | represent the result of a comparison, of loads and stores, of a map, of a sweep | [`Comparison`], [`LinesSummary`], [`SlowdownMap`], [`Sweep`] |
//! | describe other work that slowed a run down | [`Disturbance`] |
//! | keep finished points of a grid | [`KeptPoints`] |
//! | write and read tables | [`trace`], [`completions`], [`line_heat`], [`messages`], [`ports`] |
//! | pass tables to other libraries in Arrow's representation | [`to_batches`], [`read_batches`] |
//! | write packet captures | [`pcapng`] |
//! | write waveforms | [`waves`] |
//! | split page numbers | [`page_space`] |
//! | replace any other file atomically | [`atomic_write`], [`AtomicFile`] |
//! | keep files for as long as this process lives | [`temporary`] |
//!
//! A file is either complete or absent, because every file is written under a temporary name and then renamed. Files are checked when they
//! are read, and an error names the file and the column, row, line or key. Tables that other programs wrote are accepted if they have the
//! required columns and metadata.
#![forbid(unsafe_code)]

pub mod completions;
pub mod line_heat;
pub mod messages;
pub mod page_space;
pub mod pcapng;
pub mod ports;
pub mod temporary;
pub mod trace;
pub mod waves;

mod atomic;
mod comparison;
mod disturbance;
mod error;
mod host;
mod kept_points;
mod lines;
mod lock;
mod manifest;
mod map;
mod provenance;
mod run_folder;
mod storage;
mod sweep;
mod table;

pub use atomic::{AtomicFile, atomic_write};
pub use comparison::*;
pub use disturbance::*;
pub use error::RecordError;
pub use host::HostRow;
pub use kept_points::KeptPoints;
pub use lines::*;
pub use manifest::{Manifest, StartedCommand};
pub use map::*;
pub use provenance::{Build, Machine};
pub use run_folder::{RunFolder, RunPurpose, read_json, write_json, write_private_json};
pub use sweep::*;
pub use table::{RowBatches, read_batches, rows_of, to_batches};
pub use unrack_units::Warning;
