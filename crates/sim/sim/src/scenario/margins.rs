//! Messages that a scenario excludes from the figures of its run.

use crate::setup::Setup;
use crate::summary::Excluded;
use crate::work::Work;
use unrack_engine::error::SetupError;
use unrack_engine::run::Run;
use unrack_rack::{Margin, ValidScenario};
use unrack_units::Time;

/// Returns the numbers of messages of `run` that do not count: those in the warm-up and in the cool-down of the
/// scenario.
pub fn excluded(scenario: &ValidScenario, run: &Run) -> Excluded {
    let (warm_up, cool_down) = scenario.workload.margins();
    let all = run.outcomes.len() as u64;
    let last = run.outcomes.last().map_or(Time::ZERO, |outcome| outcome.submitted);
    let warm_up = match warm_up {
        Margin::Messages(count) => count,
        Margin::Time(time) => run.outcomes.partition_point(|outcome| outcome.submitted < time) as u64,
    };
    let cool_down = match cool_down {
        Margin::Messages(count) => count,
        Margin::Time(time) => {
            all - run.outcomes.partition_point(|outcome| last - outcome.submitted >= time) as u64
        }
    };
    Excluded { warm_up, cool_down }
}

/// Checks that warm-up and cool-down leave messages to count, as far as this is known before the run.
///
/// # Errors
/// If warm-up and cool-down together exclude all messages.
pub fn check_margins(scenario: &ValidScenario, setup: &Setup, work: &Work) -> Result<(), SetupError> {
    let messages = match work {
        Work::Synthetic(spec) => spec.messages,
        Work::Listed(messages) => messages.len() as u64,
        // The length of these kinds of work is unknown before the run.
        Work::Replay(..) | Work::Lines(..) | Work::Collective(_) | Work::Jobs(_) => return Ok(()),
    };
    let length = setup.length_of(work)?;
    let share = |margin| match margin {
        Margin::Messages(count) => count as f64 / messages.max(1) as f64,
        Margin::Time(Time::ZERO) => 0.0,
        Margin::Time(time) => time.as_ps() as f64 / length.as_ps() as f64,
    };
    let (warm_up, cool_down) = scenario.workload.margins();
    if share(warm_up) + share(cool_down) < 1.0 {
        return Ok(());
    }
    let (key, margin) = match share(warm_up) >= share(cool_down) {
        true => ("workload.warm_up", warm_up),
        false => ("workload.cool_down", cool_down),
    };
    let rule = "leaves messages to be counted";
    Err(SetupError::new(key, rule, format!("{margin} of a run of {messages} messages in about {length}")))
}
