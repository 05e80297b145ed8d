//! Python module `unrack._native`: questions about programs, scenarios, simulations and sweeps. The Python package `unrack` wraps it.
//!
//! | module | does |
//! |---|---|
//! | [`source`] | a scenario from a file or a text: checked, explained, drawn, simulated |
//! | [`simulation`] | results of one simulation |
//! | [`grid`] | points of a sweep, run here or one by one elsewhere, and stored in a folder |
//! | [`questions`] | effect of remote memory on a program: asked here, while the command makes the runs |
//! | [`table`] | tables through Arrow's C interface |
//! | [`waiting`] | long work without the interpreter lock, with progress, which Ctrl-C cancels |
//! | [`errors`] | errors as exceptions of `unrack.errors` |
//!
//! Results other than tables pass as JSON text, because Python reads it fast, and the figures then equal those of the command digit for
//! digit.

mod errors;
mod grid;
mod questions;
mod simulation;
mod source;
mod table;
mod waiting;

use pyo3::prelude::*;

/// Scenarios and sweeps, implemented in Rust.
#[pymodule(name = "_native")]
mod unrack_native {
    use super::PyResult;

    #[pymodule_export]
    use super::grid::SweepGrid;
    #[pymodule_export]
    use super::questions::{compare, map};
    #[pymodule_export]
    use super::simulation::SimulationResults;
    #[pymodule_export]
    use super::source::{Source, toml_from_json};
    #[pymodule_export]
    use super::table::{Table, read_table};

    /// Returns the version, the commit and the hash of the sources of this build, as JSON.
    #[pyo3::pyfunction]
    fn build() -> PyResult<String> {
        super::errors::json(&unrack_build::build())
    }
}
