//! Waiting for a quiet machine, within a budget.

use super::budget::Budget;
use std::time::{Duration, Instant};
use unrack_paging::{MachineCounters, MachineLoad};
use unrack_record::Warning;

/// Time for which the machine is observed at a time.
const LOOK: Duration = Duration::from_millis(250);
/// Quiet looks one after another that a pause of other work seldom has.
const QUIET_LOOKS: u32 = 3;
/// Part of a budget that the first wait may take.
const FIRST: f64 = 0.25;

/// Says that a wait has not helped.
pub(crate) const STILL_BUSY: &str =
    "this machine is still busy: answers that depend on it are rough, and marked so";

/// Says that a wait begins.
pub(crate) fn said(why: &Warning, until: Instant) -> String {
    let most_s = until.saturating_duration_since(Instant::now()).as_secs_f64();
    format!(
        "this machine is busy ({why}): waiting for other work to end, for up to {most_s:.0} s of the budget"
    )
}

/// Returns the load of the machine while this command does nothing.
pub(crate) fn look() -> MachineLoad {
    let before = MachineCounters::now();
    std::thread::sleep(LOOK);
    MachineLoad::between(&before, &MachineCounters::now())
}

/// Waits until other work has left the machine, or `until`. Returns whether it has.
pub(crate) fn wait(until: Instant) -> bool {
    let mut quiet = 0;
    while quiet < QUIET_LOOKS {
        if Instant::now() + LOOK > until {
            return false;
        }
        quiet = if look().disturbance().is_none() { quiet + 1 } else { 0 };
    }
    true
}

/// Returns the time until which the first wait may last; `None` without a budget, of which nothing can be spent.
pub(crate) fn first_until(budget: &Budget) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_secs_f64(budget.left_s()? * FIRST))
}

/// Returns the time until which a wait may last that leaves so many seconds for what follows it; `None` without a budget.
pub(crate) fn until_needed(budget: &Budget, needed_s: f64) -> Option<Instant> {
    let spare_s = (budget.left_s()? - needed_s).max(0.0);
    Instant::now().checked_add(Duration::from_secs_f64(spare_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_units::Time;

    #[test]
    fn a_wait_takes_a_part_of_the_budget_and_leaves_what_is_needed() {
        let unbounded = Budget::new(None);
        assert_eq!((first_until(&unbounded), until_needed(&unbounded, 1.0)), (None, None));
        let budget = Budget::new(Some(Time::from_us(100_000_000)));
        let left =
            |until: Option<Instant>| until.unwrap().saturating_duration_since(Instant::now()).as_secs_f64();
        assert!((20.0..26.0).contains(&left(first_until(&budget))));
        assert!((50.0..61.0).contains(&left(until_needed(&budget, 40.0))));
        assert_eq!(left(until_needed(&budget, 400.0)), 0.0);
        assert!(!wait(Instant::now()), "no time for a look");
    }
}
