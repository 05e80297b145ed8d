//! Conversion of the points of a study's grids to scenarios.

use crate::asked::ExtraResults;
use crate::error::StudyError;
use crate::file::{AxisValue, GridAxis, Study, StudyGrid, StudyScale};
use std::collections::BTreeMap;
use unrack_rack::{Overrides, Scenario, ValidScenario};
use unrack_sim::scenario::check_margins;
use unrack_sim::{Setup, Work};
use unrack_units::Time;

/// One point of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyPoint {
    pub grid: String,
    /// The fabric (under `fabric`), and the value of each axis.
    pub labels: BTreeMap<String, String>,
    /// Settings `KEY=VALUE` that override values of the study's scenario.
    pub set: Vec<String>,
    pub asked: ExtraResults,
    /// Whether this is the point before with another seed.
    pub is_other_seed: bool,
}

/// A point that is ready to run.
pub struct ReadyPoint {
    pub point: StudyPoint,
    pub scenario: ValidScenario,
    /// Hash of the scenario and of the files to which it refers.
    pub scenario_hash: String,
    pub setup: Setup,
    pub work: Work,
}

/// Returns all points of a study, in the order of its file.
pub fn points(study: &Study, scale: StudyScale) -> Vec<StudyPoint> {
    study.grids.iter().flat_map(|grid| points_of(study, grid, scale)).collect()
}

fn points_of(study: &Study, grid: &StudyGrid, scale: StudyScale) -> Vec<StudyPoint> {
    let own = |fabric: &String| grid.for_fabric.get(fabric).cloned().unwrap_or_default();
    let of_fabric = |fabric: &String| StudyPoint {
        grid: grid.name.clone(),
        labels: BTreeMap::from([("fabric".to_string(), fabric.clone())]),
        set: [grid.set.clone(), vec![format!("fabric.protocol={fabric}")], own(fabric)].concat(),
        asked: ExtraResults {
            first_finished: grid.first_finished.get(fabric).copied(),
            by_size: grid.by_size.clone(),
            nics: grid.nics,
            peaks: grid.peaks,
        },
        is_other_seed: false,
    };
    let mut points: Vec<StudyPoint> = study.fabrics_of(grid).iter().map(of_fabric).collect();
    for axis in &grid.axes {
        let values: Vec<&AxisValue> = values(grid, axis, scale).collect();
        points = points.iter().flat_map(|point| values.iter().map(|value| point.with(axis, value))).collect();
    }
    if scale == StudyScale::Quick {
        points.iter_mut().for_each(|point| point.set.extend(grid.quick.set.iter().cloned()));
    }
    points
}

/// Returns the values of an axis that a run of this scale has.
pub fn values<'a>(
    grid: &'a StudyGrid,
    axis: &'a GridAxis,
    scale: StudyScale,
) -> impl Iterator<Item = &'a AxisValue> {
    let keep = grid.quick.keep.get(&axis.name).filter(|_| scale == StudyScale::Quick);
    axis.values
        .iter()
        .filter(move |value| keep.is_none_or(|keep| keep.iter().any(|kept| kept == value.name())))
}

impl StudyPoint {
    fn with(&self, axis: &GridAxis, value: &AxisValue) -> StudyPoint {
        let mut point = self.clone();
        point.labels.insert(axis.name.clone(), value.name().into());
        match value {
            AxisValue::Word(word) => point.set.extend(axis.key.iter().map(|key| format!("{key}={word}"))),
            AxisValue::Named { set, .. } => point.set.extend(set.iter().cloned()),
        }
        point
    }

    /// Returns this point with as many seeds: the seed of the scenario, and then others. If an axis of the grid is the
    /// seed, returns the point alone.
    pub(crate) fn seeds(self, study: &Study, seeds: u32) -> Vec<StudyPoint> {
        let is_axis = |axis: &GridAxis| axis.key.as_deref() == Some(SEED);
        let has_axis = study.grid(&self.grid).is_some_and(|grid| grid.axes.iter().any(is_axis));
        let others = if has_axis { 0 } else { u64::from(seeds.saturating_sub(1)) };
        let other = |n: u64| {
            let set = self.set.iter().cloned().chain([format!("{SEED}={}", OTHER_SEEDS + n)]).collect();
            StudyPoint { set, is_other_seed: true, ..self.clone() }
        };
        let others: Vec<StudyPoint> = (0..others).map(other).collect();
        [self].into_iter().chain(others).collect()
    }

    /// Returns a description of the point, such as `loads: fabric edm, load 90%`.
    pub fn describe(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        format!("{}: {}", self.grid, labels.join(", "))
    }

    /// Creates the scenario of the point, and checks that it can be run.
    ///
    /// # Errors
    /// [`StudyError`] with all errors found that would prevent a run.
    pub fn ready(self, study: &Study) -> Result<ReadyPoint, StudyError> {
        let refuse =
            |error| StudyError::Scenario { point: format!("{} {}", study.name, self.describe()), error };
        self.asked.check(&study.name, &self.grid)?;
        let overrides: Overrides = self.set.iter().collect();
        let parsed = Scenario::parse(&study.name, &study.scenario, &overrides).and_then(unrack_sim::check);
        let mut scenario = parsed.map_err(refuse)?;
        let setup = Setup::from_scenario(&mut scenario).map_err(refuse)?;
        let setup = Setup { time_limit: LONGEST, ..setup };
        let work = Work::drawn(&scenario).map_err(refuse)?.ok_or_else(|| StudyError::File {
            study: study.name.clone(),
            why: "a study has no traces: they would have to come with the program".into(),
        })?;
        let over = Setup { time_limit: Time::ZERO, ..setup.clone() };
        let checked = over.run(&work, |_| {}).and_then(|_| check_margins(&scenario, &setup, &work));
        checked.map_err(|error| refuse(error.in_scenario(&scenario)))?;
        let scenario_hash = scenario.hash_with_files().map_err(refuse)?;
        Ok(ReadyPoint { point: self, scenario, scenario_hash, setup, work })
    }
}

/// Scenario key of the seed.
const SEED: &str = "seed";
/// First of the seeds that are run beside the seed of the scenario. No scenario of a study has so high a seed.
const OTHER_SEEDS: u64 = 1_001;

/// Limit of the simulated time of a point. No point should need as much; one that reaches the limit is reported as cut off.
pub const LONGEST: Time = Time::from_us(100_000_000);
