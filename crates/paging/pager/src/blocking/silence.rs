//! Time that this process has waited for its memory node. The pager stores it in the process's slot of the control segment. `unrack` reads
//! it there, warns, and ends the run when the node is silent for too long.

/// Time in ns between two checks.
const PAUSE_NS: u64 = 20_000_000;
/// Maximum time in ns that counts between two checks. A pager that runs checks at least every 50 ms. If more time passes, its process was
/// stopped or got no core, which is not the node's fault.
const MOST_COUNTED_NS: u64 = 100_000_000;

/// Clock of one pager thread, and the time on this clock since when its node has been silent.
#[derive(Default)]
pub(super) struct SilenceClock {
    /// Time in ns that passed while this thread ran.
    awake_ns: u64,
    looked_ns: u64,
    /// Number of arrivals from the memory node, as of the latest check.
    heard: u64,
    /// Time on this clock when `heard` last changed, or when the node last owed no answer.
    since_ns: u64,
}

impl SilenceClock {
    /// Returns the time in ns that passed while this thread ran.
    pub(super) fn awake_ns(&self) -> u64 {
        self.awake_ns
    }

    /// Advances the clock. Returns false if it is too soon for another check.
    pub(super) fn advance(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.looked_ns);
        if passed < PAUSE_NS {
            return false;
        }
        self.looked_ns = now_ns;
        self.awake_ns += passed.min(MOST_COUNTED_NS);
        true
    }

    /// Returns for how many ns the node has owed an answer without sending any data.
    pub(super) fn silent_ns(&mut self, is_owed: bool, heard: u64) -> u64 {
        if !is_owed || heard != self.heard {
            (self.heard, self.since_ns) = (heard, self.awake_ns);
        }
        self.awake_ns - self.since_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Advances a clock that is checked every 50 ms, until `until_ns`.
    fn run(silence: &mut SilenceClock, from_ns: u64, until_ns: u64) {
        (from_ns..=until_ns).step_by(50_000_000).for_each(|now| _ = silence.advance(now));
    }

    #[test]
    fn time_stands_still_while_the_process_is_stopped() {
        let mut silence = SilenceClock::default();
        run(&mut silence, SECOND_NS, 2 * SECOND_NS);
        let before = silence.awake_ns();
        assert!(silence.advance(3600 * SECOND_NS));
        assert_eq!(silence.awake_ns() - before, MOST_COUNTED_NS);
        assert!(!silence.advance(3600 * SECOND_NS + PAUSE_NS - 1), "too soon");
    }

    #[test]
    fn silence_lasts_from_the_question_or_the_last_answer() {
        let mut silence = SilenceClock::default();
        run(&mut silence, SECOND_NS, 2 * SECOND_NS);
        assert_eq!(silence.silent_ns(false, 7), 0, "nothing is owed");
        run(&mut silence, 2 * SECOND_NS, 4 * SECOND_NS);
        assert_eq!(silence.silent_ns(true, 7), 2 * SECOND_NS);
        assert_eq!(silence.silent_ns(true, 8), 0, "it was heard");
        run(&mut silence, 4 * SECOND_NS, 5 * SECOND_NS);
        assert_eq!(silence.silent_ns(true, 8), SECOND_NS);
        assert_eq!(silence.silent_ns(false, 8), 0, "it has answered all");
    }
}
