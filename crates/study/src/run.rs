//! Runs the points of studies on all cores. A finished point is kept in a file, under a hash of its
//! scenario and of the program that ran it, and is not run again.

use crate::error::StudyError;
use crate::file::Study;
use crate::grid::{Ready, points};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::write_json;
use unrack_sim::Run;
use unrack_sim::scenario::excluded;
use unrack_units::Time;

/// How much is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    /// Fewer points and messages: seconds.
    Quick,
}

/// What was measured at one point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    pub grid: String,
    pub labels: BTreeMap<String, String>,
    pub scenario_hash: String,
    /// The summary of the run, but for what depends on the machine. With `first_finished.slowdown`, if the
    /// study asks for it.
    pub summary: serde_json::Value,
}

/// The points of one study, in the order of its file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    pub study: String,
    pub points: Vec<Measured>,
}

/// A finished point, in its file.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: String,
    /// Of the executable file.
    program: String,
    scenario_hash: String,
    first_finished: Option<f64>,
    summary: serde_json::Value,
}

/// Told of each point that is done: how many are, of how many.
pub trait Progress: Fn(usize, usize) + Sync {}
impl<F: Fn(usize, usize) + Sync> Progress for F {}

/// Runs all points of `studies`, but those that are finished in the folder `keep`. All points are checked
/// before the first one runs.
pub fn run(
    studies: &[Study],
    scale: Scale,
    keep: &Path,
    progress: impl Progress,
) -> Result<Vec<Results>, StudyError> {
    let of_study = |study: &Study| points(study, scale).into_iter().map(|point| point.ready(study)).collect();
    let ready: Vec<Vec<Ready>> = studies.iter().map(of_study).collect::<Result<_, StudyError>>()?;
    let shelf = Shelf::new(keep)?;
    let (all, done) = (ready.iter().map(Vec::len).sum(), AtomicUsize::new(0));
    let one = |ready: &Ready| {
        let measured = shelf.measured(ready)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Ok(measured)
    };
    // All studies at once, so that no core is idle at the end of each; one point at a time, since they
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

/// Where finished points are.
struct Shelf {
    folder: PathBuf,
    program: String,
}

impl Shelf {
    fn new(folder: &Path) -> Result<Shelf, StudyError> {
        let failed = |action, path: &Path, why| StudyError::Io { action, path: path.into(), why };
        std::fs::create_dir_all(folder).map_err(|why| failed("create", folder, why))?;
        let path = std::env::current_exe().unwrap_or_default();
        let program = std::fs::read(&path).map_err(|why| failed("read", &path, why))?;
        Ok(Shelf { folder: folder.into(), program: hash(&program) })
    }

    fn measured(&self, ready: &Ready) -> Result<Measured, StudyError> {
        let (point, scenario_hash) = (&ready.point, ready.scenario.hash());
        let share = point.first_finished.map_or("all".into(), |share| share.to_string());
        let path = self.folder.join(format!("{scenario_hash}-{share}.json"));
        let kept = unrack_record::read_json::<Kept>(&path).ok().filter(|kept| {
            kept.program == self.program
                && kept.scenario_hash == scenario_hash
                && kept.first_finished == point.first_finished
        });
        let summary = match kept {
            Some(kept) => kept.summary,
            None => {
                let kept = Kept {
                    version: env!("CARGO_PKG_VERSION").into(),
                    program: self.program.clone(),
                    scenario_hash: scenario_hash.clone(),
                    first_finished: point.first_finished,
                    summary: simulate(ready)?,
                };
                write_json(&path, &kept)?;
                kept.summary
            }
        };
        Ok(Measured { grid: point.grid.clone(), labels: point.labels.clone(), scenario_hash, summary })
    }
}

fn simulate(ready: &Ready) -> Result<serde_json::Value, StudyError> {
    let done = ready.setup.run(&ready.work, |_| {}).map_err(|error| StudyError::Scenario {
        point: ready.point.describe(),
        error: error.in_scenario(&ready.scenario),
    })?;
    // What the machine took is no result: figures must not depend on it.
    let summary = done.summary(1.0, excluded(&ready.scenario, &done.run));
    let mut summary = serde_json::to_value(summary).expect("a summary is plain numbers and texts");
    let object = summary.as_object_mut().expect("a summary is an object");
    for of_the_machine in ["wall_s", "packet_hops_per_s"] {
        object.remove(of_the_machine);
    }
    if let Some(share) = ready.point.first_finished {
        let slowdown = first_finished(&done.run, share);
        object.insert("first_finished".into(), serde_json::json!({ "share": share, "slowdown": slowdown }));
    }
    Ok(summary)
}

/// Mean slowdown of the `share` of all messages that finished first: what an average is whose run was
/// stopped by then.
fn first_finished(run: &Run, share: f64) -> Option<f64> {
    let ended = |row: &usize| run.outcomes[*row].completed().unwrap_or(Time::MAX);
    let mut rows: Vec<usize> = (0..run.outcomes.len()).collect();
    rows.sort_by_key(ended);
    rows.truncate((share * run.outcomes.len() as f64).round() as usize);
    let slowdowns: Vec<f64> = rows.into_iter().filter_map(|row| run.slowdown(row)).collect();
    (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
