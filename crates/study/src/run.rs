//! Execution of studies' points on all cores. A finished point is kept ([`KeptPoints`]), and not run again by the same
//! build.

use crate::error::StudyError;
use crate::file::Study;
use crate::grid::{LONGEST, Ready, points};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_rack::ScenarioError;
use unrack_record::KeptPoints;
use unrack_sim::SetupError;
use unrack_sim::run::Ending;
use unrack_sim::scenario::excluded;

/// Amount of simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    /// Fewer points and messages, for a run of seconds.
    Quick,
}

/// Results of one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    pub grid: String,
    pub labels: BTreeMap<String, String>,
    pub scenario_hash: String,
    /// Summary of the run; other results that [`Asked`](crate::asked::Asked) asks for; and `cut_off`, the time at
    /// which the run was cut off, if it had not ended by then.
    pub summary: serde_json::Value,
}

/// Results of one study, in the order of its file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    pub study: String,
    pub points: Vec<Measured>,
}

/// Listener for finished points: takes the number finished and the number of all.
pub trait Progress: Fn(usize, usize) + Sync {}
impl<F: Fn(usize, usize) + Sync> Progress for F {}

/// Runs all points of `studies` except those in `kept`. All points are checked before the first one runs.
///
/// # Errors
/// [`StudyError`] if a point cannot be run, or `kept` cannot be written.
pub fn run(
    studies: &[Study],
    scale: Scale,
    kept: &KeptPoints,
    progress: impl Progress,
) -> Result<Vec<Results>, StudyError> {
    let of_study = |study: &Study| points(study, scale).into_iter().map(|point| point.ready(study)).collect();
    let ready: Vec<Vec<Ready>> = studies.iter().map(of_study).collect::<Result<_, StudyError>>()?;
    let (all, done) = (ready.iter().map(Vec::len).sum(), AtomicUsize::new(0));
    let one = |ready: &Ready| {
        let measured = measured(ready, kept)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Ok(measured)
    };
    // Points of all studies together, so that no core is idle at the end of each; one point at a time, since they
    // differ much in length.
    let flat: Vec<&Ready> = ready.iter().flatten().collect();
    let measured: Result<Vec<Measured>, StudyError> = flat.into_par_iter().with_max_len(1).map(one).collect();
    let mut measured = measured?.into_iter();
    let results = studies.iter().zip(&ready).map(|(study, ready)| Results {
        study: study.name.clone(),
        points: measured.by_ref().take(ready.len()).collect(),
    });
    Ok(results.collect())
}

fn measured(ready: &Ready, kept: &KeptPoints) -> Result<Measured, StudyError> {
    let point = &ready.point;
    let scenario_hash = ready.scenario.hash_with_files().map_err(|error| refused(ready, error))?;
    let asked = point.asked.to_text();
    let summary = match kept.read(&scenario_hash, &asked) {
        Some(summary) => summary,
        None => {
            let summary = simulate(ready)?;
            kept.write(&scenario_hash, &asked, &summary)?;
            summary
        }
    };
    Ok(Measured { grid: point.grid.clone(), labels: point.labels.clone(), scenario_hash, summary })
}

fn refused(ready: &Ready, error: ScenarioError) -> StudyError {
    StudyError::Scenario { point: ready.point.describe(), error }
}

fn simulate(ready: &Ready) -> Result<serde_json::Value, StudyError> {
    let failed = |error: SetupError| refused(ready, error.in_scenario(&ready.scenario));
    let (done, inside) = ready.point.asked.run(&ready.setup, &ready.work).map_err(failed)?;
    let excluded = excluded(&ready.scenario, &done.run);
    let mut summary = serde_json::to_value(done.summary(excluded)).expect("plain numbers and texts");
    let object = summary.as_object_mut().expect("a summary is an object");
    if done.run.ending == Ending::TimeLimit {
        object.insert("cut_off".into(), LONGEST.to_string().into());
    }
    object.extend(inside.into_iter().chain(ready.point.asked.of_messages(&done.run, excluded)));
    Ok(summary)
}
