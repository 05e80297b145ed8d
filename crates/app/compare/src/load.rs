//! Other work on the machine: a check before the first run, a check during every run, and waiting until the other work has ended.

use crate::budget::RunBudget;
use crate::error::Error;
use crate::steps::QuestionSteps;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use unrack_paging::{MachineCounters, MachineLoad};
use unrack_record::{OtherWork, Warning};

/// Duration of one observation of the machine.
const LOOK: Duration = Duration::from_millis(250);
/// Number of consecutive quiet observations after which other work counts as ended. A mere pause of other work is seldom that long.
const QUIET_LOOKS: u32 = 3;
/// Part of a budget that the wait before the first run may take.
const FIRST: f64 = 0.25;

/// Load of the machine, as far as answers depend on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HostLoad {
    pub cores: u32,
    pub other_work: OtherWork,
    /// Reason why a run under this load must not be used, if there is one.
    pub disturbance: Option<Warning>,
    /// Part of a run's time that other work on the machine may have added.
    pub lost: f64,
}

impl From<MachineLoad> for HostLoad {
    fn from(load: MachineLoad) -> HostLoad {
        let (other_work, disturbance) = (load.other_work(), load.disturbance());
        HostLoad { cores: load.cores, other_work, disturbance, lost: load.lost() }
    }
}

/// Function that observes the machine on which the runs are made.
pub(crate) type LoadReading<'a> = &'a dyn Fn() -> Result<HostLoad, Error>;

/// Result of the check before the first run.
pub(crate) struct FirstLook {
    pub load: HostLoad,
    /// Time spent waiting for other work to end, in seconds.
    pub waited_s: f64,
}

/// Observes the machine before the first run. If other work disturbs the machine, this function waits for the work to end, for at most a
/// part of the budget. Without a budget it does not wait and only warns the user.
///
/// # Errors
/// If the machine cannot be observed, or the question was canceled.
pub(crate) fn check(
    look: LoadReading,
    budget: &RunBudget,
    steps: &QuestionSteps,
) -> Result<FirstLook, Error> {
    let load = look()?;
    let Some(why) = &load.disturbance else { return Ok(FirstLook { load, waited_s: 0.0 }) };
    let Some(until) = first_until(budget) else {
        steps.say(&format!(
            "this machine is busy ({why}): answers may be rough; with --budget the command waits for other work to end"
        ));
        return Ok(FirstLook { load, waited_s: 0.0 });
    };
    let most_s = until.saturating_duration_since(Instant::now()).as_secs_f64();
    steps.say(&format!(
        "this machine is busy ({why}): waiting for other work to end, for up to {most_s:.0} s of the budget"
    ));
    let QuietWait { is_quiet, waited_s } = wait(look, until, steps)?;
    if !is_quiet {
        steps.say("this machine is still busy: answers that depend on it are rough, and marked so");
    }
    Ok(FirstLook { load, waited_s })
}

/// Returns the load of the machine while this process is idle.
pub(crate) fn look() -> HostLoad {
    beside(|| std::thread::sleep(LOOK)).1.into()
}

/// Runs `work`, and returns its result and the load of the machine during it.
pub(crate) fn beside<T>(work: impl FnOnce() -> T) -> (T, MachineLoad) {
    beside_program(None, work)
}

/// Runs `work`, and returns its result and the load of the machine during it. The processor time of `program`, which is not a descendant of
/// this process, does not count as other work.
pub(crate) fn beside_program<T>(program: Option<u32>, work: impl FnOnce() -> T) -> (T, MachineLoad) {
    let before = MachineCounters::with(program);
    let done = work();
    (done, MachineLoad::between(&before, &MachineCounters::with(program)))
}

/// Result of a wait.
pub(crate) struct QuietWait {
    /// True if other work has ended.
    pub is_quiet: bool,
    pub waited_s: f64,
}

/// Waits until other work on the machine has ended, or until the time `until`.
///
/// # Errors
/// If the machine cannot be observed, or the question was canceled.
pub(crate) fn wait(look: LoadReading, until: Instant, steps: &QuestionSteps) -> Result<QuietWait, Error> {
    steps.begin("waiting for other work to end")?;
    let began = Instant::now();
    let waited = |is_quiet| QuietWait { is_quiet, waited_s: began.elapsed().as_secs_f64() };
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        steps.check()?;
        if Instant::now() + LOOK > until {
            return Ok(waited(false));
        }
        quiet = if look()?.disturbance.is_none() { quiet + 1 } else { 0 };
    }
    Ok(waited(true))
}

/// Returns the end of the longest wait before the first run; `None` without a budget.
fn first_until(budget: &RunBudget) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_secs_f64(budget.left_s()? * FIRST))
}

/// Returns the end of the longest wait that still leaves `needed_s` seconds for the steps after it; `None` without a budget.
pub(crate) fn until_needed(budget: &RunBudget, needed_s: f64) -> Option<Instant> {
    let spare_s = (budget.left_s()? - needed_s).max(0.0);
    Instant::now().checked_add(Duration::from_secs_f64(spare_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::QuestionCaller;
    use std::sync::atomic::AtomicBool;
    use unrack_units::Time;

    #[test]
    fn a_wait_takes_a_part_of_the_budget_and_leaves_what_is_needed() {
        let unbounded = RunBudget::new(None);
        assert_eq!((first_until(&unbounded), until_needed(&unbounded, 1.0)), (None, None));
        let budget = RunBudget::new(Some(Time::from_us(100_000_000)));
        let left =
            |until: Option<Instant>| until.unwrap().saturating_duration_since(Instant::now()).as_secs_f64();
        assert!((20.0..26.0).contains(&left(first_until(&budget))));
        assert!((50.0..61.0).contains(&left(until_needed(&budget, 40.0))));
        assert_eq!(left(until_needed(&budget, 400.0)), 0.0);
    }

    #[test]
    fn a_wait_without_time_ends_at_once_and_a_canceled_one_too() {
        let cancel = AtomicBool::new(false);
        let steps = QuestionSteps::until(QuestionCaller::here(&(), &cancel), None);
        assert!(!wait(&|| Ok(look()), Instant::now(), &steps).unwrap().is_quiet, "no time for a look");
        cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        let hour = Instant::now() + Duration::from_secs(3600);
        assert_eq!(wait(&|| Ok(look()), hour, &steps).err(), Some(Error::Canceled));
    }
}
