//! Runs the points of studies on all cores. A finished point is kept in a file, under a hash of its
//! scenario and of the program that ran it, and is not run again.

use crate::asked::Asked;
use crate::error::StudyError;
use crate::file::Study;
use crate::grid::{LONGEST, Ready, points};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_record::write_json;
use unrack_sim::SetupError;
use unrack_sim::run::Ending;
use unrack_sim::scenario::excluded;

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
    /// The summary of the run, but for what depends on the machine; what else is [`Asked`] for; and `cut_off`, when the run
    /// was, if it had not ended by then.
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
    asked: Asked,
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
        let asked = hash(point.asked.to_text().as_bytes());
        let path = self.folder.join(format!("{scenario_hash}-{asked}.json"));
        let kept = unrack_record::read_json::<Kept>(&path).ok().filter(|kept| {
            kept.program == self.program && kept.scenario_hash == scenario_hash && kept.asked == point.asked
        });
        let summary = match kept {
            Some(kept) => kept.summary,
            None => {
                let kept = Kept {
                    version: env!("CARGO_PKG_VERSION").into(),
                    program: self.program.clone(),
                    scenario_hash: scenario_hash.clone(),
                    asked: point.asked.clone(),
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
    let refused = |error: SetupError| StudyError::Scenario {
        point: ready.point.describe(),
        error: error.in_scenario(&ready.scenario),
    };
    let (done, inside) = ready.point.asked.run(&ready.setup, &ready.work).map_err(refused)?;
    // What the machine took is no result: figures must not depend on it.
    let excluded = excluded(&ready.scenario, &done.run);
    let mut summary = serde_json::to_value(done.summary(1.0, excluded)).expect("plain numbers and texts");
    let object = summary.as_object_mut().expect("a summary is an object");
    for of_the_machine in ["wall_s", "packet_hops_per_s"] {
        object.remove(of_the_machine);
    }
    if done.run.ending == Ending::TimeLimit {
        object.insert("cut_off".into(), LONGEST.to_string().into());
    }
    object.extend(inside.into_iter().chain(ready.point.asked.of_messages(&done.run, excluded)));
    Ok(summary)
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
