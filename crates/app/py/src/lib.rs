//! Module `unrack._native`: questions about programs, scenarios, simulations and sweeps for Python, which wraps them in the package `unrack`.
//!
//! | module | does |
//! |---|---|
//! | [`source`] | a scenario as it is named: checked, explained, drawn, simulated |
//! | [`simulation`] | results of one simulation |
//! | [`grid`] | points of a sweep, run here or one by one elsewhere, and kept in a folder |
//! | [`questions`] | what far memory does to a program: asked here, and run by the command |
//! | [`table`] | tables through Arrow's C interface |
//! | [`waiting`] | long work without the interpreter lock, with progress, that Ctrl-C ends |
//! | [`errors`] | errors as exceptions of `unrack.errors` |
//!
//! Results other than tables pass as JSON text: Python has a fast reader of it, and the figures are those of the command
//! digit for digit.

mod errors;
mod grid;
mod questions;
mod simulation;
mod source;
mod table;
mod waiting;

use pyo3::prelude::*;

/// Scenarios and sweeps, in Rust.
#[pymodule(name = "_native")]
mod unrack_native {
    use super::PyResult;

    #[pymodule_export]
    use super::grid::Grid;
    #[pymodule_export]
    use super::questions::{compare, map};
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::source::{Source, toml_from_json};
    #[pymodule_export]
    use super::table::{Table, read_table};

    /// Returns version, commit and hash of the sources of this build, as JSON.
    #[pyo3::pyfunction]
    fn build() -> PyResult<String> {
        super::errors::json(&unrack_build::build())
    }
}
