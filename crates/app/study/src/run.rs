//! Runs the points of studies on all cores. The results of a finished point are stored, so that the same build does not
//! run the point again ([`unrack_grid`]).

use crate::error::StudyError;
use crate::file::{Study, StudyScale};
use crate::grid::{LONGEST, ReadyPoint, points};
use crate::programs::ProgramFound;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use unrack_grid::{GridWatch, PointProgress, RunPoint};
use unrack_record::KeptPoints;
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
    let of_study = |study: &Study| points(study, scale).into_iter().map(|point| point.ready(study)).collect();
    let ready: Vec<Vec<ReadyPoint>> = studies.iter().map(of_study).collect::<Result<_, StudyError>>()?;
    let counts: Vec<usize> = ready.iter().map(Vec::len).collect();
    // Run the points of all studies together, so that no core is idle at the end of each study.
    let ready: Vec<ReadyPoint> = ready.into_iter().flatten().collect();
    let summaries = unrack_grid::run(&ready, kept, threads, watch)?;
    let mut measured = ready.into_iter().zip(summaries).map(|(ready, summary)| Measured {
        grid: ready.point.grid,
        labels: ready.point.labels,
        scenario_hash: ready.scenario_hash,
        summary,
    });
    let results = studies.iter().zip(counts).map(|(study, count)| StudyResults {
        study: study.name.clone(),
        points: measured.by_ref().take(count).collect(),
        programs: Vec::new(),
    });
    Ok(results.collect())
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
        let mut summary = serde_json::to_value(done.summary(excluded)).expect("plain numbers and texts");
        let object = summary.as_object_mut().expect("a summary is an object");
        if done.run.ending == Ending::TimeLimit {
            object.insert("cut_off".into(), LONGEST.to_string().into());
        }
        object.extend(inside.into_iter().chain(asked.of_messages(&done.run, excluded)));
        Ok(summary)
    }
}
