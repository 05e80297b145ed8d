//! One simulation: it is run, its figures are computed, and it is saved as a run folder.

use crate::error::ScenarioRunError;
use crate::memory_left::MemoryLeft;
use crate::ready::{ReadyScenario, ScenarioSource};
use crate::tables::{port_rows, write_tables};
use serde::Serialize;
use std::time::Instant;
use unrack_rack::ValidScenario;
use unrack_record::{Machine, RecordError, RunFolder, StartedCommand, atomic_write, ports};
use unrack_sim::observe::{LinkSamples, Views};
use unrack_sim::scenario::excluded;
use unrack_sim::{Finished, Progress, Setup, Summary};
use unrack_units::Time;

/// Figures of a run, and its cost on the machine, as saved in `summary.json`.
#[derive(Serialize)]
pub struct SimulationFigures {
    #[serde(flatten)]
    pub summary: Summary,
    pub machine: Machine,
}

/// Simulation that has finished.
pub struct FinishedSimulation {
    pub scenario: ValidScenario,
    pub setup: Setup,
    pub done: Finished,
    pub figures: SimulationFigures,
    pub started: StartedCommand,
}

/// Options of a simulation, in addition to its scenario.
#[derive(Debug, Clone, Default)]
pub struct SimulateOptions {
    /// Number of threads over which the run is split. 0 and 1 mean that it is not split.
    pub threads: u32,
    /// Interval at which links are sampled; `None` for no samples.
    pub links_every: Option<Time>,
}

/// Load of links over time: the metadata and rows of `ports.parquet`.
pub type LinkTable = (ports::Meta, Vec<ports::Row>);

/// Simulates a scenario with the settings `KEY=VALUE`.
///
/// # Errors
/// If the scenario cannot be run to its end, or not with these options.
pub fn simulate(
    source: &ScenarioSource,
    set: &[String],
    options: &SimulateOptions,
    started: StartedCommand,
    progress: impl FnMut(Progress),
) -> Result<(FinishedSimulation, Option<LinkTable>), ScenarioRunError> {
    let ReadyScenario { scenario, setup, work, need } = source.ready(set)?;
    let clock = Instant::now();
    let refused = |error| ScenarioRunError::from_run(&error, &scenario);
    let (done, links) = match options.links_every {
        None if options.threads > 1 => {
            (setup.split(&work, options.threads, progress).map_err(refused)?, None)
        }
        None => (setup.run(&work, progress).map_err(refused)?, None),
        Some(_) if options.threads > 1 => {
            return Err(ScenarioRunError::Refused("links over time need one thread".into()));
        }
        Some(Time::ZERO) => return Err(ScenarioRunError::Refused("the interval of links is above 0".into())),
        Some(every) => {
            let intervals = setup.length_of(&work).map_err(refused)?.as_ps() as f64 / every.as_ps() as f64;
            MemoryLeft::now().check(&need.with_samples(&scenario, intervals))?;
            let samples = LinkSamples::new(every).within(MemoryLeft::now().for_a_table());
            let mut watch = Views { links: Some(samples), ..Views::default() };
            let done = setup.watched(&work, &mut watch, progress).map_err(refused)?;
            let links = watch.links.as_ref().map(|links| port_table(links, done.fabric)).transpose()?;
            (done, links)
        }
    };
    let excluded = excluded(&scenario, &done.run);
    let warnings = unrack_sim::warnings(&scenario, &setup, &done, excluded);
    let notes = unrack_sim::notes(&scenario, &setup, &done);
    let summary = Summary { warnings, notes, ..done.summary(excluded) };
    let figures = SimulationFigures::new(summary, clock.elapsed().as_secs_f64(), &started);
    Ok((FinishedSimulation { scenario, setup, done, figures, started }, links))
}

fn port_table(links: &LinkSamples, fabric: &str) -> Result<LinkTable, ScenarioRunError> {
    if let Some(full) = links.full() {
        return Err(ScenarioRunError::Failed(format!(
            "the samples of links up to {full} fill the memory for them: give a longer interval than {}",
            links.every()
        )));
    }
    Ok(port_rows(links, fabric))
}

impl SimulationFigures {
    /// Returns the figures of a run. `wall_s` is the time that the simulation took, in seconds.
    pub fn new(summary: Summary, wall_s: f64, started: &StartedCommand) -> SimulationFigures {
        let packet_hops_per_s = Some(summary.packet_hops as f64 / wall_s);
        SimulationFigures { summary, machine: Machine { wall_s, packet_hops_per_s, ..started.machine() } }
    }
}

/// Saves a run and the files that `also` writes. The manifest is written last, because it marks the run as complete.
///
/// # Errors
/// If a file cannot be written.
pub fn save(
    simulated: &FinishedSimulation,
    folder: &RunFolder,
    name: &str,
    set: &[String],
    transfers: u64,
    also: impl FnOnce(&RunFolder) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let FinishedSimulation { scenario, setup, done, figures, started } = simulated;
    let text = scenario.explain();
    let settings = serde_json::json!({
        "scenario": name,
        "scenario_hash": scenario.hash(),
        "set": set,
        "transfers": transfers,
    });
    folder.complete(|folder| {
        write_tables(folder, done, &setup.network)?;
        folder.write_json("summary.json", figures)?;
        also(folder)?;
        atomic_write(folder.path("scenario.toml"), text.as_bytes())?;
        folder.write_json("manifest.json", &started.manifest(scenario.seed, Some(text), settings))
    })
}
