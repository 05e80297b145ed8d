//! Stored measurements. A map stores each run in its run folder, so that an interrupted map can be continued.

use super::task::{MeasurementTask, PagerCost, TaskResult};
use crate::error::Error;
use crate::steps::QuestionSteps;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use unrack_record::{RunFolder, read_json};
use unrack_units::Bytes;

const NAME: &str = "measured.json";

/// Store of the runs of one command.
pub(crate) struct KeptRuns<'a> {
    /// Run folder; `None` if runs are stored in memory only.
    folder: Option<&'a RunFolder>,
    runs: RefCell<Measurements>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Measurements {
    of: RunsIdentity,
    calibration: Option<KeptCalibration>,
    /// The program's footprint, from which shares of local memory were computed.
    footprint_bytes: Option<u64>,
    delays: Vec<ChosenDelays>,
    /// Runs in the order in which they were made.
    runs: Vec<KeptRun>,
}

/// Values that must be equal for stored runs to be reused.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunsIdentity {
    /// Hash of the sources of this command, because a different pager or fit gives different measurements.
    pub sources: String,
    pub program: String,
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct KeptCalibration {
    floor_ns: f64,
    unseen_ns: f64,
    /// True if other work disturbed the calibration.
    is_disturbed: bool,
}

/// Delays that were chosen for one amount of local memory.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct ChosenDelays {
    local_bytes: u64,
    delays_ns: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct KeptRun {
    task: MeasurementTask,
    done: TaskResult,
    /// True if other work disturbed the run, so that its time is not used.
    is_disturbed: bool,
}

impl<'a> KeptRuns<'a> {
    /// Returns an empty store that is lost when this command ends.
    pub(crate) fn in_memory() -> KeptRuns<'a> {
        KeptRuns { folder: None, runs: RefCell::default() }
    }

    /// Opens the store of the run folder, with its undisturbed runs. It is empty if the stored runs belong to another command, or if the
    /// input is not repeatable.
    pub(crate) fn open(
        folder: &'a RunFolder,
        of: RunsIdentity,
        is_repeatable: bool,
        steps: &QuestionSteps,
    ) -> KeptRuns<'a> {
        let found: Option<Measurements> = read_json(folder.path(NAME)).ok();
        let nothing = Measurements { of: of.clone(), ..Measurements::default() };
        let mut runs = found.filter(|found| is_repeatable && found.of == of).unwrap_or(nothing);
        runs.runs.retain(|run| !run.is_disturbed);
        runs.calibration = runs.calibration.filter(|calibration| !calibration.is_disturbed);
        let count = runs.runs.len();
        if count > 0 {
            let path = folder.path(NAME);
            steps.say(&format!(
                "continuing from {count} runs in {} (remove it to start again)",
                path.display()
            ));
        }
        KeptRuns { folder: Some(folder), runs: RefCell::new(runs) }
    }

    /// Returns the pager's cost, and whether its measurement was disturbed.
    pub(crate) fn cost(&self) -> Option<(PagerCost, bool)> {
        let KeptCalibration { floor_ns, unseen_ns, is_disturbed } = self.runs.borrow().calibration?;
        Some((PagerCost { floor_ns, unseen_ns }, is_disturbed))
    }

    /// Stores the pager's cost.
    pub(crate) fn keep_cost(&self, cost: PagerCost, is_disturbed: bool) -> Result<(), Error> {
        let PagerCost { floor_ns, unseen_ns } = cost;
        self.keep(|runs| runs.calibration = Some(KeptCalibration { floor_ns, unseen_ns, is_disturbed }))
    }

    /// Returns the program's footprint: the stored one if there is one, otherwise the largest of the native runs so far. The first result
    /// is stored, so that shares have the same sizes when runs are repeated.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        let mut runs = self.runs.borrow_mut();
        if let Some(kept) = runs.footprint_bytes {
            return kept;
        }
        let native = runs.runs.iter().filter(|run| matches!(run.task, MeasurementTask::Native { .. }));
        let largest = native.map(|run| run.done.footprint_bytes).max();
        // The next run that is stored writes this value to the file, too.
        runs.footprint_bytes = largest;
        largest.unwrap_or(0)
    }

    /// Returns the delays for `local` memory: the stored ones if there are any, otherwise those that `choose` returns.
    pub(crate) fn delays_ns(
        &self,
        local: Bytes,
        choose: impl FnOnce() -> Vec<f64>,
    ) -> Result<Vec<f64>, Error> {
        let local_bytes = local.get();
        if let Some(kept) = self.runs.borrow().delays.iter().find(|kept| kept.local_bytes == local_bytes) {
            return Ok(kept.delays_ns.clone());
        }
        let delays_ns = choose();
        self.keep(|runs| runs.delays.push(ChosenDelays { local_bytes, delays_ns: delays_ns.clone() }))?;
        Ok(delays_ns)
    }

    /// Stores a run, which replaces an earlier one of the same task.
    pub(crate) fn put(
        &self,
        task: MeasurementTask,
        done: TaskResult,
        is_disturbed: bool,
    ) -> Result<(), Error> {
        self.keep(|runs| {
            runs.runs.retain(|run| run.task != task);
            runs.runs.push(KeptRun { task, done, is_disturbed });
        })
    }

    /// Returns whether there is an undisturbed run of this task.
    pub(crate) fn has(&self, task: MeasurementTask) -> bool {
        self.runs.borrow().runs.iter().any(|run| run.task == task && !run.is_disturbed)
    }

    /// Returns the run of this task, even if it is disturbed.
    pub(crate) fn get(&self, task: MeasurementTask) -> Option<TaskResult> {
        self.runs.borrow().runs.iter().find(|run| run.task == task).map(|run| run.done)
    }

    /// Returns undisturbed runs in the order in which they were made.
    pub(crate) fn undisturbed(
        &self,
        is_wanted: impl Fn(MeasurementTask) -> bool,
    ) -> Vec<(MeasurementTask, TaskResult)> {
        self.wanted(|run| !run.is_disturbed && is_wanted(run.task))
    }

    /// Returns all runs with their tasks, including disturbed ones, in the order in which they were made.
    pub(crate) fn with_disturbed(
        &self,
        is_wanted: impl Fn(MeasurementTask) -> bool,
    ) -> Vec<(MeasurementTask, TaskResult)> {
        self.wanted(|run| is_wanted(run.task))
    }

    fn wanted(&self, is_wanted: impl Fn(&KeptRun) -> bool) -> Vec<(MeasurementTask, TaskResult)> {
        let runs = self.runs.borrow();
        runs.runs.iter().filter(|run| is_wanted(run)).map(|run| (run.task, run.done)).collect()
    }

    /// Returns all runs, including disturbed ones.
    pub(crate) fn all(&self, is_wanted: impl Fn(MeasurementTask) -> bool) -> Vec<TaskResult> {
        self.with_disturbed(is_wanted).into_iter().map(|(_, done)| done).collect()
    }

    fn keep(&self, add: impl FnOnce(&mut Measurements)) -> Result<(), Error> {
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

    fn done(wall_s: f64) -> TaskResult {
        TaskResult { wall_s, ..TaskResult::default() }
    }

    #[test]
    fn an_undisturbed_run_takes_the_place_of_a_disturbed_one() {
        let (kept, task) = (KeptRuns::in_memory(), MeasurementTask::Native { nth: 1 });
        kept.put(task, done(9.0), true).unwrap();
        assert!(!kept.has(task) && kept.undisturbed(|_| true).is_empty());
        assert_eq!(kept.get(task), Some(done(9.0)), "better than nothing, to plan by");
        kept.put(task, done(1.0), false).unwrap();
        assert!(kept.has(task));
        assert_eq!(kept.all(|_| true), [done(1.0)]);
        assert_eq!(
            kept.undisturbed(|task| matches!(task, MeasurementTask::Native { .. })),
            [(task, done(1.0))]
        );
    }

    #[test]
    fn a_footprint_stays_once_shares_of_it_are_sizes() {
        let kept = KeptRuns::in_memory();
        let native = |nth, footprint_bytes| {
            kept.put(MeasurementTask::Native { nth }, TaskResult { footprint_bytes, ..done(1.0) }, false)
                .unwrap();
        };
        assert_eq!(kept.footprint_bytes(), 0, "nothing was run");
        native(1, 4096);
        native(2, 8192);
        assert_eq!(kept.footprint_bytes(), 8192);
        native(2, 4096);
        native(3, 12288);
        assert_eq!(kept.footprint_bytes(), 8192);
    }
}
