//! Runs one scenario over a grid of values: `unrack sweep`.

use crate::axes::{Axis, product};
use crate::error::ScenarioRunError;
use crate::ready::{ReadyScenario, ScenarioSource};
use crate::runner::{self, run};
use crate::watch::{GridWatch, PointProgress};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use unrack_record::{Figures, KeptPoints, Sweep, SweepPoint};
use unrack_sim::scenario::excluded;
use unrack_sim::{Progress, Summary};

/// Name of the folder for finished points, in the folder of a sweep.
pub const KEPT: &str = "points";

/// One scenario of a grid.
pub struct GridPoint<'s> {
    source: &'s ScenarioSource,
    /// Values of the point, one for each axis.
    values: Vec<String>,
    /// Settings of the point, as `--set` takes them.
    pub set: Vec<String>,
    scenario_hash: String,
}

/// Grid in the form that is saved. It holds everything that the table of the sweep needs in addition to the results, so
/// that the files of the scenario are not needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridPlan {
    /// Keys whose values differ between points.
    pub keys: Vec<String>,
    pub points: Vec<PlannedPoint>,
    /// Options on which a result depends, in addition to the scenario: [`ScenarioSource::asked`].
    pub asked: String,
}

/// One scenario of a [`GridPlan`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPoint {
    /// Values of the keys that differ, in the order of these keys.
    pub values: Vec<String>,
    /// All settings, as `--set` takes them.
    pub set: Vec<String>,
    /// Hash of the scenario and of the files that it names.
    pub scenario_hash: String,
}

/// Part of a grid: every `of`th point, starting with point `number`, where the first point has number 1. The points are
/// interleaved because slow points are often neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPart {
    pub number: u32,
    pub of: u32,
}

impl SweepPart {
    /// Part that contains the whole grid.
    pub const WHOLE: SweepPart = SweepPart { number: 1, of: 1 };

    /// Returns whether this part contains the point at this index. The first point has index 0.
    pub fn has(self, index: usize) -> bool {
        index % self.of as usize == (self.number - 1) as usize
    }
}

impl GridPlan {
    /// Returns how many points of an earlier sweep are missing from this grid.
    pub(crate) fn lacks(&self, earlier: &Sweep) -> usize {
        let here: BTreeSet<&str> = self.points.iter().map(|point| point.scenario_hash.as_str()).collect();
        earlier.points.iter().filter(|point| !here.contains(point.scenario_hash.as_str())).count()
    }

    /// Returns the table of the sweep, with a row for each point and the keys that vary.
    pub fn table(&self, version: String, summaries: &[Summary]) -> Sweep {
        let row = |(point, summary): (&PlannedPoint, &Summary)| SweepPoint {
            values: point.values.clone(),
            scenario_hash: point.scenario_hash.clone(),
            figures: figures(summary),
            notes: summary.notes.clone(),
        };
        let points = self.points.iter().zip(summaries).map(row).collect();
        Sweep { version, keys: self.keys.clone(), points }
    }
}

/// Scenarios of a grid that passed all checks.
pub struct GridPoints<'s> {
    source: &'s ScenarioSource,
    axes: Vec<Axis>,
    pub all: Vec<GridPoint<'s>>,
}

impl<'s> GridPoints<'s> {
    /// Checks that every point can be run, and returns the points. Calls `before` before each check; `before` may end
    /// the check by unwinding.
    ///
    /// # Errors
    /// Returns the error of the first point that cannot be run.
    pub fn check(
        source: &'s ScenarioSource,
        axes: Vec<Axis>,
        before: impl Fn(),
    ) -> Result<GridPoints<'s>, ScenarioRunError> {
        let point = |values| {
            before();
            GridPoint::check(source, &axes, values)
        };
        let all = product(&axes).into_iter().map(point).collect::<Result<_, _>>()?;
        Ok(GridPoints { source, axes, all })
    }

    /// Returns the summaries of the points of a part, in their order (see [`run`]).
    ///
    /// # Errors
    /// If a point cannot be run to its end, or its result cannot be stored.
    pub fn run(
        &self,
        part: SweepPart,
        kept: &KeptPoints,
        threads: NonZeroUsize,
        watch: &impl GridWatch,
    ) -> Result<Vec<Summary>, ScenarioRunError> {
        let points = self.all.iter().enumerate().filter(|(index, _)| part.has(*index));
        let points: Vec<_> = points.map(|(_, point)| point).collect();
        run(&points, kept, threads, watch)
    }

    /// Returns the grid in the form that is saved.
    pub fn plan(&self) -> GridPlan {
        let varied = |n: &usize| self.axes[*n].values.len() > 1;
        let columns: Vec<usize> = (0..self.axes.len()).filter(varied).collect();
        let planned = |point: &GridPoint<'s>| PlannedPoint {
            values: columns.iter().map(|n| point.values[*n].clone()).collect(),
            set: point.set.clone(),
            scenario_hash: point.scenario_hash.clone(),
        };
        GridPlan {
            keys: columns.iter().map(|n| self.axes[*n].key.clone()).collect(),
            points: self.all.iter().map(planned).collect(),
            asked: self.source.asked(),
        }
    }
}

impl<'s> GridPoint<'s> {
    fn check(
        source: &'s ScenarioSource,
        axes: &[Axis],
        values: Vec<String>,
    ) -> Result<GridPoint<'s>, ScenarioRunError> {
        let set: Vec<String> =
            axes.iter().zip(&values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
        let hash = |ready: ReadyScenario| ready.scenario.hash_with_files().map_err(ScenarioRunError::from);
        let scenario_hash = source.ready(&set).and_then(hash).map_err(|error| error.at(&set))?;
        Ok(GridPoint { source, values, set, scenario_hash })
    }
}

/// Simulates a scenario with the settings `KEY=VALUE`, and returns its figures.
///
/// # Errors
/// If the scenario cannot be run to its end.
pub fn simulate(
    source: &ScenarioSource,
    set: &[String],
    progress: impl FnMut(Progress),
) -> Result<Summary, ScenarioRunError> {
    let ReadyScenario { scenario, setup, work, .. } = source.ready(set)?;
    let done = setup.run(&work, progress).map_err(|error| ScenarioRunError::from_run(&error, &scenario))?;
    let notes = unrack_sim::notes(&scenario, &setup, &done);
    Ok(Summary { notes, ..done.summary(excluded(&scenario, &done.run)) })
}

impl runner::RunPoint for GridPoint<'_> {
    type Found = Summary;
    type Error = ScenarioRunError;

    fn scenario_hash(&self) -> &str {
        &self.scenario_hash
    }

    fn asked(&self) -> String {
        self.source.asked()
    }

    fn run(&self, share: &mut PointProgress<'_>) -> Result<Summary, ScenarioRunError> {
        let found = simulate(self.source, &self.set, |progress| share.show(progress));
        found.map_err(|error| error.at(&self.set))
    }
}

/// Returns the figures of a run that the table of a sweep holds.
fn figures(summary: &Summary) -> Figures {
    Figures {
        fabric: summary.fabric.clone(),
        seed: summary.seed,
        nodes: u64::from(summary.nodes),
        messages: summary.messages,
        completed: summary.completed,
        dropped_packets: summary.dropped,
        trimmed_packets: summary.trimmed,
        slowdown_mean: summary.slowdown.mean,
        slowdown_p50: summary.slowdown.p50,
        slowdown_p99: summary.slowdown.p99,
        slowdown_p999: summary.slowdown.p999,
        slowdown_max: summary.slowdown.max,
        completion_mean_ns: summary.completion_ns.mean,
        completion_p99_ns: summary.completion_ns.p99,
        throughput_gbps: summary.throughput_gbps,
        queue_mean_bytes: summary.queue_bytes.mean,
        queue_p99_bytes: summary.queue_bytes.p99,
        queue_max_bytes: summary.queue_bytes.max,
        sim_time_ns: summary.sim_time_ns,
        events: summary.events,
        packet_hops: summary.packet_hops,
    }
}
