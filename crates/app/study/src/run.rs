//! Runs the points of studies on all cores. The results of a finished point are stored, so that the same build does not
//! run the point again ([`unrack_grid`]).

use crate::error::StudyError;
use crate::file::{Study, StudyScale};
use crate::grid::{LONGEST, ReadyPoint, StudyPoint, points};
use crate::programs::ProgramFound;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use unrack_grid::{GridWatch, PointProgress, RunPoint};
use unrack_record::KeptPoints;
use unrack_sim::Summary;
use unrack_sim::run::Ending;
use unrack_sim::scenario::excluded;

/// Results of one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    pub grid: String,
    pub labels: BTreeMap<String, String>,
    pub scenario_hash: String,
    /// Summary of the run, and the additional results that [`ExtraResults`](crate::asked::ExtraResults) requests. If the run reached the
    /// limit of simulated time, `cut_off` has that time.
    pub summary: serde_json::Value,
    /// Summaries of the same point with other seeds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<serde_json::Value>,
}

/// Results of one study, in the order of its file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyResults {
    pub study: String,
    pub points: Vec<Measured>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramFound>,
}

/// Runs all points of `studies` except those whose results are in `kept`. All points are checked before the first one runs.
///
/// # Errors
/// [`StudyError`] if a point cannot be run, or `kept` cannot be written.
pub fn run(
    studies: &[Study],
    scale: StudyScale,
    kept: &KeptPoints,
    threads: NonZeroUsize,
    watch: &impl GridWatch,
) -> Result<Vec<StudyResults>, StudyError> {
    run_seeds(studies, (scale, 1), kept, threads, watch)
}

/// Runs studies like [`run`], with this number of seeds: that of the scenario, and others. Grids with an axis of seeds run once.
///
/// # Errors
/// The errors of [`run`].
pub fn run_seeds(
    studies: &[Study],
    (scale, seeds): (StudyScale, u32),
    kept: &KeptPoints,
    threads: NonZeroUsize,
    watch: &impl GridWatch,
) -> Result<Vec<StudyResults>, StudyError> {
    let of = |study: &Study| {
        points(study, scale).into_iter().flat_map(|point| point.seeds(study, seeds)).collect()
    };
    run_points(studies.iter().map(|study| (study, of(study))).collect(), kept, threads, watch)
}

/// Runs these points of studies. Consecutive points that differ only in their seed are one result.
pub(crate) fn run_points(
    runs: Vec<(&Study, Vec<StudyPoint>)>,
    kept: &KeptPoints,
    threads: NonZeroUsize,
    watch: &impl GridWatch,
) -> Result<Vec<StudyResults>, StudyError> {
    let names: Vec<(&str, usize)> =
        runs.iter().map(|(study, points)| (&study.name[..], points.len())).collect();
    let ready =
        runs.into_iter().flat_map(|(study, points)| points.into_iter().map(move |point| point.ready(study)));
    // Run the points of all studies together, so that no core is idle at the end of each study.
    let ready: Vec<ReadyPoint> = ready.collect::<Result<_, StudyError>>()?;
    let summaries = unrack_grid::run(&ready, kept, threads, watch)?;
    let mut done = ready.into_iter().zip(summaries);
    let mut results = Vec::new();
    for (study, count) in names {
        let mut points: Vec<Measured> = Vec::new();
        for (ReadyPoint { point, scenario_hash, .. }, summary) in done.by_ref().take(count) {
            match points.last_mut() {
                Some(first) if point.is_other_seed => first.seeds.push(summary),
                _ => {
                    let (grid, labels) = (point.grid, point.labels);
                    points.push(Measured { grid, labels, scenario_hash, summary, seeds: Vec::new() });
                }
            }
        }
        results.push(StudyResults { study: study.into(), points, programs: Vec::new() });
    }
    Ok(results)
}

impl RunPoint for ReadyPoint {
    type Found = serde_json::Value;
    type Error = StudyError;

    fn scenario_hash(&self) -> &str {
        &self.scenario_hash
    }

    fn asked(&self) -> String {
        self.point.asked.to_text()
    }

    fn run(&self, share: &mut PointProgress<'_>) -> Result<serde_json::Value, StudyError> {
        let asked = &self.point.asked;
        let ran = asked.run(&self.setup, &self.work, |progress| share.show(progress));
        let (done, inside) = ran.map_err(|error| StudyError::Scenario {
            point: self.point.describe(),
            error: error.in_scenario(&self.scenario),
        })?;
        let excluded = excluded(&self.scenario, &done.run);
        let notes = unrack_sim::notes(&self.scenario, &self.setup, &done);
        let summary = Summary { notes, ..done.summary(excluded) };
        let mut summary = serde_json::to_value(summary).expect("plain numbers and texts");
        let object = summary.as_object_mut().expect("a summary is an object");
        if done.run.ending == Ending::TimeLimit {
            object.insert("cut_off".into(), LONGEST.to_string().into());
        }
        object.extend(inside.into_iter().chain(asked.of_messages(&done.run, excluded)));
        Ok(summary)
    }
}
