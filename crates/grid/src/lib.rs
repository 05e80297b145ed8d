//! Grids of scenarios, for sweeps and studies. Their points run on all cores, each once per build.
//!
//! | module | does |
//! |---|---|
//! | [`axes`] | keys of scenarios with lists of values, and their product |
//! | [`runner`] | runs the points that are not kept yet, on threads, and keeps them |
//! | [`watch`] | progress of the points |
//! | [`sweep`] | runs one scenario over axes, and makes its table |
//!
//! A kept point is found by everything that its result depends on ([`unrack_record::KeptPoints`]): the scenario with
//! its seed and the files that it names, the options of the run, and the sources of the build.
#![forbid(unsafe_code)]

pub mod axes;
pub mod runner;
pub mod sweep;
pub mod watch;

pub use runner::{Point, run};
pub use watch::{GridWatch, PointProgress};
