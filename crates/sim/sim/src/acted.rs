//! Helpers with which fabrics note mechanisms that never acted.

use unrack_engine::events::Mechanism;
use unrack_engine::run::Run;
use unrack_units::{Time, Warning};

/// Returns a note if a mechanism never acted in a run.
pub fn unless_acted(run: &Run, mechanism: Mechanism, key: &str, text: &str) -> Vec<Warning> {
    if run.counters.acted(mechanism) > 0 { Vec::new() } else { vec![Warning::new(key, text)] }
}

/// Returns the longest time from a submission to a completion in a run.
pub(crate) fn longest(run: &Run) -> Time {
    run.outcomes.iter().filter_map(|outcome| outcome.completion()).max().unwrap_or_default()
}
