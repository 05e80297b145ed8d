//! Grids of scenarios, for sweeps and studies: their points run on all cores, each once per build.
//!
//! | module | does |
//! |---|---|
//! | [`runner`] | runs the points that are not kept, on threads, and keeps them |
//! | [`watch`] | how far the points are |
//! | [`axes`] | keys of scenarios with lists of values, and their product |
//! | [`sweep`] | a scenario over such axes, and its table |
//!
//! What is kept is known by all that a result depends on ([`unrack_record::KeptPoints`]): the scenario with the files
//! that it names and its seed, what is asked of the run, and the sources of the build.
#![forbid(unsafe_code)]

pub mod axes;
pub mod runner;
pub mod sweep;
pub mod watch;

pub use runner::{Point, run};
pub use watch::{GridWatch, PointProgress};
