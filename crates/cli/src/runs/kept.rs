//! What was measured. A map keeps it in its run folder as it comes: one that was interrupted goes on from there.

use super::{Done, Task};
use crate::failure::{Failure, say};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use unrack_paging::{Calibration, Mode};
use unrack_record::{RunFolder, read_json};
use unrack_units::Bytes;

const NAME: &str = "measured.json";

/// The runs of one command so far.
pub struct Kept<'a> {
    /// None: kept in memory alone.
    folder: Option<&'a RunFolder>,
    runs: RefCell<Measurements>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Measurements {
    of: Identity,
    calibration: Option<KeptCalibration>,
    delays: Vec<Delays>,
    /// In the order in which they were made.
    runs: Vec<Run>,
}

/// What must be the same for runs to be those of this map.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Hash of what this command was built from: another pager or fit measures something else.
    pub sources: String,
    pub program: String,
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct KeptCalibration {
    floor_ns: f64,
    unseen_ns: f64,
    /// True if other work disturbed it.
    is_disturbed: bool,
}

/// The delays that were chosen for so much local memory.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Delays {
    local_bytes: u64,
    delays_ns: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Run {
    task: Task,
    done: Done,
    /// True if other work disturbed it: its time is not used.
    is_disturbed: bool,
}

impl<'a> Kept<'a> {
    /// Keeps nothing beyond this command.
    pub fn in_memory() -> Kept<'a> {
        Kept { folder: None, runs: RefCell::default() }
    }

    /// What the folder holds of this command that nothing disturbed; nothing if it was another command.
    pub fn open(folder: &'a RunFolder, of: Identity, is_repeatable: bool) -> Kept<'a> {
        let found: Option<Measurements> = read_json(folder.path(NAME)).ok();
        let nothing = Measurements { of: of.clone(), ..Measurements::default() };
        let mut runs = found.filter(|found| is_repeatable && found.of == of).unwrap_or(nothing);
        runs.runs.retain(|run| !run.is_disturbed);
        runs.calibration = runs.calibration.filter(|calibration| !calibration.is_disturbed);
        let count = runs.runs.len();
        if count > 0 {
            let path = folder.path(NAME);
            say(&format!("going on from {count} runs in {} (remove it to measure anew)", path.display()));
        }
        Kept { folder: Some(folder), runs: RefCell::new(runs) }
    }

    /// The pager's cost, and true if it was disturbed.
    pub fn calibration(&self) -> Option<(Calibration, bool)> {
        let KeptCalibration { floor_ns, unseen_ns, is_disturbed } = self.runs.borrow().calibration?;
        Some((Calibration { mode: Mode::Blocking, floor_ns, unseen_ns }, is_disturbed))
    }

    pub fn keep_calibration(&self, calibration: Calibration, is_disturbed: bool) -> Result<(), Failure> {
        let Calibration { floor_ns, unseen_ns, .. } = calibration;
        self.keep(|runs| runs.calibration = Some(KeptCalibration { floor_ns, unseen_ns, is_disturbed }))
    }

    /// The delays for so much local memory: those of the runs that are kept, or else what `choose` says.
    pub fn delays_ns(&self, local: Bytes, choose: impl FnOnce() -> Vec<f64>) -> Result<Vec<f64>, Failure> {
        let local_bytes = local.get();
        if let Some(kept) = self.runs.borrow().delays.iter().find(|kept| kept.local_bytes == local_bytes) {
            return Ok(kept.delays_ns.clone());
        }
        let delays_ns = choose();
        self.keep(|runs| runs.delays.push(Delays { local_bytes, delays_ns: delays_ns.clone() }))?;
        Ok(delays_ns)
    }

    /// Keeps a run. It takes the place of a disturbed one.
    pub fn put(&self, task: Task, done: Done, is_disturbed: bool) -> Result<(), Failure> {
        self.keep(|runs| {
            runs.runs.retain(|run| run.task != task);
            runs.runs.push(Run { task, done, is_disturbed });
        })
    }

    /// True if there is an undisturbed run.
    pub fn has(&self, task: Task) -> bool {
        self.runs.borrow().runs.iter().any(|run| run.task == task && !run.is_disturbed)
    }

    /// A run, disturbed if there is no other.
    pub fn get(&self, task: Task) -> Option<Done> {
        self.runs.borrow().runs.iter().find(|run| run.task == task).map(|run| run.done)
    }

    /// Undisturbed runs, in the order of their making.
    pub fn undisturbed(&self, is_wanted: impl Fn(Task) -> bool) -> Vec<(Task, Done)> {
        let runs = self.runs.borrow();
        let wanted = runs.runs.iter().filter(|run| !run.is_disturbed && is_wanted(run.task));
        wanted.map(|run| (run.task, run.done)).collect()
    }

    /// All runs, disturbed ones among them.
    pub fn all(&self, is_wanted: impl Fn(Task) -> bool) -> Vec<Done> {
        self.runs.borrow().runs.iter().filter(|run| is_wanted(run.task)).map(|run| run.done).collect()
    }

    fn keep(&self, add: impl FnOnce(&mut Measurements)) -> Result<(), Failure> {
        add(&mut self.runs.borrow_mut());
        match self.folder {
            Some(folder) => Ok(folder.write_json(NAME, &*self.runs.borrow())?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(wall_s: f64) -> Done {
        Done { wall_s, ..Done::default() }
    }

    #[test]
    fn an_undisturbed_run_takes_the_place_of_a_disturbed_one() {
        let (kept, task) = (Kept::in_memory(), Task::Native { nth: 1 });
        kept.put(task, done(9.0), true).unwrap();
        assert!(!kept.has(task) && kept.undisturbed(|_| true).is_empty());
        assert_eq!(kept.get(task), Some(done(9.0)), "better than nothing, to plan by");
        kept.put(task, done(1.0), false).unwrap();
        assert!(kept.has(task));
        assert_eq!(kept.all(|_| true), [done(1.0)]);
        assert_eq!(kept.undisturbed(|task| matches!(task, Task::Native { .. })), [(task, done(1.0))]);
    }
}
