//! What is written down: run folders, manifests and Parquet tables.
#![forbid(unsafe_code)]

mod comparison;
mod map;

pub use comparison::*;
pub use map::*;
