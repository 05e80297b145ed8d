//! Prepares scenarios to run, and runs grids of them for sweeps and studies. The points of a grid run on all cores, and
//! each point runs once per build.
//!
//! | module | does |
//! |---|---|
//! | [`ready`] | reads a scenario, checks it, and adds its work |
//! | [`work`] | draws the work of a scenario, or reads it from the file that it names |
//! | [`simulation`] | runs one scenario, and saves its run folder |
//! | [`memory_left`] | rejects runs that need more memory than is left |
//! | [`tables`] | writes the messages of a run |
//! | [`axes`] | keys of scenarios with lists of values, and their product |
//! | [`runner`] | runs the points without a stored result, on threads, and stores their results |
//! | [`watch`] | progress of the points |
//! | [`sweep`] | runs one scenario over axes, and creates its table |
//! | [`sweep_folder`] | creates the folder of a sweep, unless an earlier table would be lost |
//!
//! The stored result of a point is identified by everything on which the result depends
//! ([`unrack_record::KeptPoints`]): the scenario with its seed and the files that it names, the options of the run, and
//! the sources of the build.
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
pub use ready::{ReadyScenario, ScenarioOrigin, ScenarioSource};
pub use runner::{RunPoint, run};
pub use watch::{GridWatch, PointProgress};
