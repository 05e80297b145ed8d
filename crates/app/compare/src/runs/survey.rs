//! Execution of the runs of a measurement within the time budget. During each run the machine is checked for other work, and runs that
//! other work disturbed are repeated.

use super::conclusion::Conclusion;
use super::kept::KeptRuns;
use super::line::{self, Delayed};
use super::maker::{Made, MeasuredCost};
use super::runner::Runner;
use super::task::{DISTURBED, KnownResults, MeasurementTask, TaskResult, with_median};
use crate::budget::RunBudget;
use crate::error::Error;
use crate::left::Kind;
use crate::load;
use crate::steps::QuestionSteps;
use std::cell::{Cell, RefCell};
use std::time::Instant;
use unrack_paging::quality;
use unrack_record::{Disturbance, DisturbedRun, OtherWork, Warning};
use unrack_units::Bytes;

pub(crate) struct Survey<'a> {
    pub runner: &'a Runner<'a>,
    pub kept: &'a KeptRuns<'a>,
    pub budget: &'a RunBudget,
    pub steps: &'a QuestionSteps<'a>,
    /// Rounds of runs with injected delays.
    pub rounds: u32,
    /// Lower bound of the largest delay, in multiples of the pager's cost.
    pub reach: f64,
    cores: u32,
    before: OtherWork,
    log: RefCell<Log>,
    captured_local: Cell<Option<Bytes>>,
    /// Number of runs for which the budget had no time.
    left_out: Cell<u32>,
    /// Time spent waiting for other work to end, in seconds.
    waited_s: Cell<f64>,
}

#[derive(Default)]
struct Log {
    runs: u32,
    /// Runs whose times are not used.
    disturbed: Vec<(MeasurementTask, DisturbedRun)>,
    warnings: Vec<Warning>,
}

/// Predicted time of a run with remote memory and no delay, in native run times. It is used until one such run has been made.
const UNDELAYED: f64 = 2.0;
/// Delay of additional runs, as a multiple of the largest planned delay. Additional runs are made if the planned runs leave too wide an
/// interval.
const FARTHER: f64 = 3.0;
/// Maximum number of rounds of additional runs.
const MOST_MORE: u32 = 8;
/// Maximum number of repetitions of disturbed runs, after all other runs.
const REPEATS: u32 = 2;

impl<'a> Survey<'a> {
    /// Observes the machine, runs the program once natively, and measures the pager's cost.
    pub(crate) fn begin(
        runner: &'a Runner<'a>,
        kept: &'a KeptRuns<'a>,
        budget: &'a RunBudget,
        steps: &'a QuestionSteps<'a>,
        rounds: u32,
    ) -> Result<Survey<'a>, Error> {
        let found = load::check(&|| runner.maker.look(), budget, steps)?;
        let survey = Survey {
            runner,
            kept,
            budget,
            steps,
            rounds,
            reach: line::REACH,
            cores: found.load.cores,
            before: found.load.other_work,
            log: RefCell::default(),
            captured_local: Cell::new(None),
            left_out: Cell::new(0),
            waited_s: Cell::new(found.waited_s),
        };
        survey.perform(MeasurementTask::Native { nth: 1 }, 0.0)?;
        if kept.get(MeasurementTask::Native { nth: 1 }).is_none() {
            return Err(Error::Failed(format!(
                "the budget of {} ended before the first native run did: give a larger --budget",
                budget.text()
            )));
        }
        survey.calibrate()?;
        Ok(survey)
    }

    fn calibrate(&self) -> Result<(), Error> {
        self.steps.begin("measuring the pager")?;
        if self.kept.cost().is_some_and(|(_, is_disturbed)| !is_disturbed) {
            return Ok(());
        }
        match self.runner.maker.measure_cost(self.budget.deadline())? {
            Some(MeasuredCost { cost, is_disturbed }) => self.kept.keep_cost(cost, is_disturbed),
            None => Ok(()),
        }
    }

    /// Like [`Survey::undelayed`], and also records every page transfer in `trace.parquet`.
    pub(crate) fn capture(&self, local: Bytes) -> Result<(), Error> {
        self.captured_local.set(Some(local));
        self.undelayed(local)
    }

    /// Runs the program with `local` memory and no delay. This run counts the fetches, and shows the cost of paging without waits.
    pub(crate) fn undelayed(&self, local: Bytes) -> Result<(), Error> {
        let task = undelayed(local);
        self.perform(task, self.predicted_s(task))
    }

    /// Makes all runs with injected delays, the remaining native runs, and runs without delay at `others`; then repeats the disturbed runs.
    pub(crate) fn inject(&self, locals: &[Bytes], others: &[Bytes]) -> Result<(), Error> {
        let lines: Result<Vec<_>, _> =
            locals.iter().filter_map(|local| self.delays(*local).transpose()).collect();
        let others: Vec<_> = others.iter().map(|local| undelayed(*local)).collect();
        let tasks = line::plan(&lines?, &others, self.rounds);
        self.perform_all(&tasks)?;
        for _ in 0..REPEATS {
            let again = self.all_disturbed();
            let is_worth = is_worth_repeating(again.len(), self.kept.all(|_| true).len());
            if again.is_empty() || !(is_worth || self.is_quiet_in_time_for(&again)?) {
                break;
            }
            self.perform_all(&again)?;
        }
        Ok(())
    }

    /// Waits for other work to end, at most as long as the budget still has time for these runs afterwards. Returns whether the other work
    /// has ended.
    fn is_quiet_in_time_for(&self, tasks: &[MeasurementTask]) -> Result<bool, Error> {
        let predicted = |task: &MeasurementTask| self.steps.corrected(kind(*task), self.predicted_s(*task));
        let needed_s = tasks.iter().map(predicted).sum();
        let Some(until) = load::until_needed(self.budget, needed_s) else { return Ok(false) };
        let waited = load::wait(&|| self.runner.maker.look(), until, self.steps)?;
        self.waited_s.set(self.waited_s.get() + waited.waited_s);
        Ok(waited.is_quiet)
    }

    /// Makes additional runs while the slowdown at a delay is too uncertain to be stated and the budget has time. These are native runs. If
    /// the number of waits in a run is uncertain, too, they also include one run at the smallest delay and one at [`FARTHER`] times the
    /// largest delay, because the slope is more certain the farther apart the delays are. Without a budget, only the planned runs are made.
    pub(crate) fn make_surer(&self, locals: &[Bytes], delay_ns: f64) -> Result<(), Error> {
        let has_time = |task: &MeasurementTask| {
            self.budget.allows(self.steps.corrected(kind(*task), self.predicted_s(*task)))
        };
        for nth in 1..=MOST_MORE {
            let (mut tasks, mut lines) = (Vec::new(), Vec::new());
            for local in locals {
                let Some(more) = more(&self.conclude(*local), delay_ns) else { continue };
                tasks = line::more_native(self.rounds, nth);
                if more == More::Delayed {
                    lines.extend(self.delays(*local)?);
                }
            }
            tasks.extend(line::farther(&lines, self.rounds + nth, FARTHER));
            tasks.retain(has_time);
            if self.budget.left_s().is_none() || tasks.is_empty() {
                break;
            }
            self.perform_all(&tasks)?;
        }
        Ok(())
    }

    fn delays(&self, local: Bytes) -> Result<Option<Delayed>, Error> {
        let (Some(run), Some((cost, _))) = (self.kept.get(undelayed(local)), self.kept.cost()) else {
            return Ok(None);
        };
        let choose = || line::delays_ns(self.pace_s(), run.fetches, cost.floor_ns, self.reach);
        let delays_ns = self.kept.delays_ns(local, choose)?;
        Ok(Some(Delayed { local_bytes: local.get(), delays_ns }))
    }

    fn perform_all(&self, tasks: &[MeasurementTask]) -> Result<(), Error> {
        let predicted = |task: &MeasurementTask| (*task, self.predicted_s(*task));
        let tasks: Vec<_> = tasks.iter().filter(|task| !self.kept.has(**task)).map(predicted).collect();
        for (task, predicted_s) in &tasks {
            self.steps.expect(kind(*task), *predicted_s);
        }
        self.steps.all_expected();
        tasks.into_iter().try_for_each(|(task, predicted_s)| self.perform(task, predicted_s))
    }

    /// Makes a run, unless it is already stored or the budget has no time for it.
    fn perform(&self, task: MeasurementTask, predicted_s: f64) -> Result<(), Error> {
        if self.kept.has(task) {
            return Ok(());
        }
        let is_possible = is_native(task) || self.kept.cost().is_some();
        let is_allowed = is_possible && self.budget.allows(self.steps.corrected(kind(task), predicted_s));
        self.steps.begin(self.name(task))?;
        let began = Instant::now();
        let make = || self.runner.make(task, self.known(), self.budget.deadline());
        match is_allowed.then(make).transpose()?.flatten() {
            Some(made) => {
                self.steps.done(kind(task), predicted_s, began.elapsed().as_secs_f64());
                self.take(task, made)
            }
            None => {
                self.steps.drop(kind(task), predicted_s);
                self.left_out.set(self.left_out.get() + 1);
                Ok(())
            }
        }
    }

    fn take(&self, task: MeasurementTask, made: Made) -> Result<(), Error> {
        let why = made.load.disturbance;
        let lost = if why.is_some() { made.load.lost } else { 0.0 };
        self.kept.put(task, TaskResult { lost, ..made.done }, why.is_some())?;
        let mut log = self.log.borrow_mut();
        log.runs += 1;
        let new =
            made.warnings.into_iter().filter(|warning| !log.warnings.contains(warning)).collect::<Vec<_>>();
        log.warnings.extend(new);
        if let Some(why) = why {
            let run = DisturbedRun { run: self.name(task), wall_s: made.done.wall_s, why, repeated: false };
            log.disturbed.push((task, run));
        }
        Ok(())
    }

    fn known(&self) -> KnownResults {
        let cost = self.kept.cost().map(|(cost, _)| cost).unwrap_or_default();
        let natives: Vec<_> = self.kept.undisturbed(is_native).iter().map(|(_, done)| done.wall_s).collect();
        let native_s = (!natives.is_empty()).then(|| with_median(natives).median_s);
        KnownResults {
            cost,
            footprint: self.footprint(),
            native_s,
            captured_local: self.captured_local.get(),
        }
    }

    /// Returns the program's footprint.
    pub(crate) fn footprint(&self) -> Bytes {
        Bytes::new(self.kept.footprint_bytes())
    }

    /// Returns the median native run time, which is that of disturbed runs if there are no others. It is used for predictions, and as the
    /// speed of replays.
    pub(crate) fn pace_s(&self) -> f64 {
        let all = || with_median(self.kept.all(is_native).iter().map(|done| done.wall_s).collect()).median_s;
        self.known().native_s.unwrap_or_else(all)
    }

    /// Returns the predicted time of a run, not corrected by the times of similar runs.
    fn predicted_s(&self, task: MeasurementTask) -> f64 {
        let is_undelayed = |task| matches!(task, MeasurementTask::Remote { delay_ns: 0.0, .. });
        match task {
            MeasurementTask::Native { .. } => self.pace_s(),
            MeasurementTask::Remote { local_bytes, delay_ns, .. } => {
                let same = self.kept.get(undelayed(Bytes::new(local_bytes)));
                let others = self.kept.all(is_undelayed);
                let mean = others.iter().map(|done| done.wall_s).sum::<f64>() / others.len().max(1) as f64;
                match same {
                    Some(done) => done.wall_s + done.fetches as f64 * delay_ns / 1e9,
                    None if others.is_empty() => UNDELAYED * self.pace_s(),
                    None => mean,
                }
            }
        }
    }

    fn name(&self, task: MeasurementTask) -> String {
        let share = |bytes: u64| bytes as f64 / self.footprint().get().max(1) as f64 * 100.0;
        match task {
            MeasurementTask::Native { nth } => format!("native run {nth}"),
            MeasurementTask::Remote { local_bytes, delay_ns: 0.0, .. } => {
                format!("{:.0} % local, no delay", share(local_bytes))
            }
            MeasurementTask::Remote { local_bytes, delay_ns, nth } => {
                format!("{:.0} % local, {:.1} us a fetch, run {nth}", share(local_bytes), delay_ns / 1e3)
            }
        }
    }

    /// Returns disturbed runs that have not been replaced by an undisturbed one.
    fn all_disturbed(&self) -> Vec<MeasurementTask> {
        let log = self.log.borrow();
        let mut tasks: Vec<MeasurementTask> = Vec::new();
        for (task, _) in &log.disturbed {
            if !self.kept.has(*task) && !tasks.contains(task) {
                tasks.push(*task);
            }
        }
        tasks
    }

    /// Returns the load by other work, before and during the runs.
    pub(crate) fn disturbance(&self) -> Disturbance {
        let log = self.log.borrow();
        let repeated = |(task, run): &(MeasurementTask, DisturbedRun)| DisturbedRun {
            repeated: self.kept.has(*task),
            ..run.clone()
        };
        let disturbed = log.disturbed.iter().map(repeated).collect();
        Disturbance {
            cores: self.cores,
            before: self.before,
            waited_s: self.waited_s.get(),
            runs: log.runs,
            disturbed,
        }
    }

    /// Returns warnings about the runs as a whole.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let log = self.log.borrow();
        let (disturbed, left_out) = (self.all_disturbed().len(), self.left_out.get());
        let mut warnings = log.warnings.clone();
        if disturbed > 0 {
            let text = format!(
                "{disturbed} runs were disturbed and are not used, the last because {}: intervals are wider than \
                 without disturbance",
                self.last_reason()
            );
            warnings.push(Warning::new(DISTURBED, text));
        }
        if left_out > 0 {
            let text = format!("the budget of {} left no time for {left_out} runs", self.budget.text());
            warnings.push(Warning::new("budget", text));
        }
        warnings.extend((!self.runner.same_output()).then(|| self.runner.output_differs()));
        warnings
    }

    /// Returns the warning that there are too few usable runs for a conclusion.
    pub(crate) fn too_few(&self, what: &str, usable: usize, needed: usize) -> Warning {
        if self.all_disturbed().is_empty() {
            let budget = self.budget.text();
            let text = format!(
                "too few {what} within the budget of {budget}, {usable} of at least {needed}: give a larger --budget"
            );
            return Warning::new("budget", text);
        }
        let text = format!(
            "too few undisturbed {what}, {usable} of at least {needed} ({}): stop other work on this machine, or keep it from \
             the cores of this command (taskset), and run it again",
            self.last_reason()
        );
        Warning::new(DISTURBED, text)
    }

    pub(crate) fn last_reason(&self) -> String {
        self.log.borrow().disturbed.last().map_or_else(String::new, |(_, run)| run.why.to_string())
    }
}

/// Kind of additional runs that may make the slowdown certain enough to be stated.
#[derive(Debug, PartialEq, Eq)]
enum More {
    Native,
    /// Delayed runs, in addition to native ones.
    Delayed,
}

/// Returns the kind of additional runs that may make the slowdown at a delay certain enough. `None` if the slowdown is already certain, or
/// if additional runs would not help.
fn more(conclusion: &Conclusion, delay_ns: f64) -> Option<More> {
    let fit = conclusion.fit.as_ref()?;
    match &conclusion.withheld {
        Some(why) => (why.key == quality::INTERCEPT).then_some(More::Delayed),
        // The runs of a rough conclusion scatter because of other work, so additional runs during that work would not help.
        None if conclusion.rough.is_some() || quality::slowdown(fit, delay_ns).is_ok() => None,
        None if quality::added_s(fit, delay_ns).is_ok() => Some(More::Native),
        None => Some(More::Delayed),
    }
}

/// Returns whether repeating disturbed runs is worthwhile. If more than half of all runs were disturbed, the machine is continuously busy,
/// and the repetitions would be disturbed, too.
fn is_worth_repeating(disturbed: usize, runs: usize) -> bool {
    2 * disturbed <= runs
}

fn kind(task: MeasurementTask) -> Kind {
    match task {
        MeasurementTask::Native { .. } => Kind::Native,
        MeasurementTask::Remote { delay_ns: 0.0, .. } => Kind::Undelayed,
        MeasurementTask::Remote { .. } => Kind::Injected,
    }
}

fn is_native(task: MeasurementTask) -> bool {
    matches!(task, MeasurementTask::Native { .. })
}

/// Returns the task with `local` memory and no delay.
pub(crate) fn undelayed(local: Bytes) -> MeasurementTask {
    MeasurementTask::Remote { local_bytes: local.get(), delay_ns: 0.0, nth: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_record::Fit;

    #[test]
    fn what_scatters_decides_which_runs_are_made_more() {
        let fit = |waits_ci95, waits_per_s_ci95| Fit {
            intercept_s: 1.0,
            waits: 1e5,
            waits_ci95,
            waits_per_s: 1e5,
            waits_per_s_ci95,
            r2: 0.99,
            worst_residual: 0.01,
        };
        let (narrow, wide) = ([0.9e5, 1.1e5], [0.4e5, 2e5]);
        let of = |fit, withheld: Option<&str>| {
            let withheld = withheld.map(|key| Warning::new(key, "because"));
            more(&Conclusion { points: Vec::new(), fit, withheld, rough: None }, 5e3)
        };
        assert_eq!(of(Some(fit(narrow, narrow)), None), None);
        assert_eq!(of(Some(fit(narrow, wide)), None), Some(More::Native));
        assert_eq!(of(Some(fit(wide, wide)), None), Some(More::Delayed));
        assert_eq!(of(Some(fit(narrow, narrow)), Some(quality::INTERCEPT)), Some(More::Delayed));
        assert_eq!(of(Some(fit(narrow, wide)), Some(quality::PROGRAM_CHANGED)), None);
        assert_eq!(of(None, Some("disturbed")), None);
    }

    #[test]
    fn a_machine_that_is_busy_throughout_is_not_asked_again() {
        assert!(is_worth_repeating(1, 16) && is_worth_repeating(8, 16));
        assert!(!is_worth_repeating(9, 16) && !is_worth_repeating(1, 1));
    }
}
