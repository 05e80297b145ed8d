//! A scenario from a file or a text, which can be checked, explained, drawn and simulated.

use crate::errors::{ErrorClass, json, of_run, raised};
use crate::grid::SweepGrid;
use crate::simulation::SimulationResults;
use crate::waiting::interruptible;
use pyo3::prelude::*;
use std::path::PathBuf;
use unrack_build::build;
use unrack_grid::simulation::{self, SimulateOptions};
use unrack_grid::work::MOST_TRANSFERS;
use unrack_grid::{ScenarioOrigin, ScenarioRunError, ScenarioSource, sweep};
use unrack_record::StartedCommand;
use unrack_units::Time;

/// A scenario from a file or a text, with settings that replace its values.
#[pyclass(frozen, module = "unrack._native")]
#[derive(Clone)]
pub(crate) struct Source {
    source: ScenarioSource,
    set: Vec<String>,
}

#[pymethods]
impl Source {
    /// Creates a source from a file, or from a text. The name of the text appears in error messages.
    #[new]
    #[pyo3(signature = (path = None, text = None, name = "<text>", set = Vec::new(), transfers = None))]
    fn new(
        path: Option<PathBuf>,
        text: Option<String>,
        name: &str,
        set: Vec<String>,
        transfers: Option<u64>,
    ) -> PyResult<Source> {
        let origin = match (path, text) {
            (Some(path), None) => ScenarioOrigin::File(path),
            (None, Some(text)) => ScenarioOrigin::Text { name: name.into(), text },
            _ => return Err(raised(ErrorClass::Refused, "a scenario is a file or a text")),
        };
        let transfers = transfers.unwrap_or(MOST_TRANSFERS);
        Ok(Source { source: ScenarioSource { origin, transfers }, set })
    }

    /// Checks that the scenario can be run, and returns its description as JSON.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        let ready = py.detach(|| self.source.ready(&self.set)).map_err(|why| of_run(&why))?;
        let scenario = &ready.scenario;
        json(&serde_json::json!({
            "protocol": scenario.protocol.name(),
            "workload": scenario.workload.kind(),
            "nodes": ready.setup.network.nodes(),
            "seed": scenario.seed,
            "hash": scenario.hash(),
            "memory_bytes": ready.need.bytes(),
        }))
    }

    /// Returns the complete scenario, as TOML.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let loaded = py.detach(|| self.source.origin.load(&self.set));
        Ok(loaded.map_err(|why| of_run(&why))?.0.explain())
    }

    /// Returns a picture of the network as SVG.
    fn draw(&self, py: Python<'_>) -> PyResult<String> {
        let loaded = py.detach(|| self.source.origin.load(&self.set));
        Ok(loaded.map_err(|why| of_run(&why))?.1.network.topology.draw())
    }

    /// Simulates the scenario on this number of threads. If `every` is given, a time such as `10us`, the links are sampled at that
    /// interval.
    #[pyo3(signature = (threads = 1, every = None, progress = None))]
    fn simulate(
        &self,
        py: Python<'_>,
        threads: u32,
        every: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SimulationResults> {
        let wrong = |why| raised(ErrorClass::Refused, &format!("links: {why}"));
        let links_every = every.map(str::parse::<Time>).transpose().map_err(wrong)?;
        let options = SimulateOptions { threads, links_every };
        let found = interruptible(py, progress, |gauge| {
            let started = StartedCommand::now(build());
            simulation::simulate(&self.source, &self.set, &options, started, |now| {
                gauge.show(now.finished, now.total.unwrap_or(now.submitted));
            })
        })?;
        let (simulated, links) = found.map_err(|why| of_run(&why))?;
        Ok(SimulationResults {
            simulated,
            links,
            name: self.name(),
            set: self.set.clone(),
            transfers: self.source.transfers,
        })
    }

    /// Returns the points of a grid. The axes are lists of values, `KEY=VALUE,VALUE,...`, and the seeds.
    #[pyo3(signature = (axes, seeds = None))]
    fn grid(&self, py: Python<'_>, axes: Vec<String>, seeds: Option<String>) -> PyResult<SweepGrid> {
        let all = [&self.set[..], &axes].concat();
        interruptible(py, None, |gauge| {
            SweepGrid::check(&self.source, self.name(), &all, seeds.as_deref(), gauge)
        })?
    }

    /// Simulates one point of a grid, and returns its figures as JSON in the form that sweep folders store.
    #[pyo3(signature = (set, progress = None))]
    fn point(
        &self,
        py: Python<'_>,
        set: Vec<String>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let set = [&self.set[..], &set].concat();
        let found: Result<_, ScenarioRunError> = interruptible(py, progress, |gauge| {
            sweep::simulate(&self.source, &set, |now| {
                gauge.show(now.finished, now.total.unwrap_or(now.submitted));
            })
        })?;
        json(&found.map_err(|why| of_run(&why))?)
    }
}

impl Source {
    /// Returns the path of the file, or the name of the text.
    fn name(&self) -> String {
        match &self.source.origin {
            ScenarioOrigin::File(path) => path.display().to_string(),
            ScenarioOrigin::Text { name, .. } => name.clone(),
        }
    }
}

/// Returns the TOML text of a JSON object.
#[pyfunction]
pub(crate) fn toml_from_json(text: &str) -> PyResult<String> {
    let wrong = |why: &dyn std::fmt::Display| raised(ErrorClass::Refused, &format!("no scenario: {why}"));
    let value: serde_json::Value = serde_json::from_str(text).map_err(|why| wrong(&why))?;
    toml::to_string(&value).map_err(|why| wrong(&why))
}
