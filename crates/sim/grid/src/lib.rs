//! Scenarios made ready to run, and grids of them for sweeps and studies, whose points run on all cores, each once per
//! build.
//!
//! | module | does |
//! |---|---|
//! | [`ready`] | reads a scenario, checks it, and adds its work |
//! | [`work`] | draws the work of a scenario, or reads it from the file that it names |
//! | [`simulation`] | runs one scenario, and saves its run folder |
//! | [`memory_left`] | refuses what takes more memory than is left |
//! | [`tables`] | writes the messages of a run |
//! | [`axes`] | keys of scenarios with lists of values, and their product |
//! | [`runner`] | runs the points that are not kept yet, on threads, and keeps them |
//! | [`watch`] | progress of the points |
//! | [`sweep`] | runs one scenario over axes, and makes its table |
//! | [`sweep_folder`] | creates the folder of a sweep, unless an earlier table would be lost |
//!
//! A kept point is found by everything that its result depends on ([`unrack_record::KeptPoints`]): the scenario with
//! its seed and the files that it names, the options of the run, and the sources of the build.
#![forbid(unsafe_code)]

pub mod axes;
pub mod memory_left;
pub mod ready;
pub mod runner;
pub mod simulation;
pub mod sweep;
pub mod sweep_folder;
pub mod tables;
pub mod watch;
pub mod work;

mod error;

pub use error::ScenarioRunError;
pub use ready::{Ready, ScenarioOrigin, ScenarioSource};
pub use runner::{Point, run};
pub use watch::{GridWatch, PointProgress};
