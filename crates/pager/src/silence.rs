//! Time that this process has waited for its memory node. It is stored in the process's slot of the control
//! segment; `unrack` reads it there, warns, and ends the run when the node is silent for too long.

use crate::control::{FOR_PAGES, FOR_ROOM};
use crate::node::Owed;
use crate::pager::Pager;
use crate::sys::now_ns;
use std::sync::atomic::Ordering::Relaxed;

/// Time between two checks.
const PAUSE_NS: u64 = 20_000_000;
/// Most time that counts between two checks. A pager checks at least every 50 ms while it runs: more time passes
/// only if its process is stopped, or gets no core, and the node is not to blame for that.
const MOST_COUNTED_NS: u64 = 100_000_000;

/// Clock of one pager thread, and the time on it since which its node has been silent.
#[derive(Default)]
pub(crate) struct Silence {
    /// Time that passed while this thread ran, in ns.
    awake_ns: u64,
    looked_ns: u64,
    /// Number of arrivals from the node, and the time awake when it last changed or nothing was owed.
    heard: u64,
    since_ns: u64,
}

impl Silence {
    pub(crate) fn awake_ns(&self) -> u64 {
        self.awake_ns
    }

    /// Advances the clock. Returns false if it is too soon for another check.
    fn advance(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.looked_ns);
        if passed < PAUSE_NS {
            return false;
        }
        self.looked_ns = now_ns;
        self.awake_ns += passed.min(MOST_COUNTED_NS);
        true
    }

    /// Returns how long the node has owed an answer and sent nothing, in ns.
    fn silent_ns(&mut self, is_owed: bool, heard: u64) -> u64 {
        if !is_owed || heard != self.heard {
            (self.heard, self.since_ns) = (heard, self.awake_ns);
        }
        self.awake_ns - self.since_ns
    }
}

impl Pager {
    /// Checks the run's owner and the node. Cheap enough for every tick and every wait.
    pub(crate) fn keep_watch(&mut self) {
        let now = now_ns();
        self.owner.check(self.control, now);
        if !self.silence.advance(now) {
            return;
        }
        let Some(node) = &self.node else { return };
        let owed = node.client.owed();
        let silent_ns = self.silence.silent_ns(owed.is_some(), node.client.heard());
        let coming = self.pending.iter().filter(|pending| self.contents(pending.id).is_none());
        let oldest_ns = coming.map(|pending| self.silence.awake_ns() - pending.begun_ns).max();
        let for_pages = oldest_ns.is_some() || owed == Some(Owed::Pages);
        self.slot.waits_for.store(if for_pages { FOR_PAGES } else { FOR_ROOM }, Relaxed);
        self.slot.waited_ns.store(silent_ns.max(oldest_ns.unwrap_or(0)), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Advances a clock that is checked every 50 ms, until `until_ns`.
    fn run(silence: &mut Silence, from_ns: u64, until_ns: u64) {
        (from_ns..=until_ns).step_by(50_000_000).for_each(|now| _ = silence.advance(now));
    }

    #[test]
    fn time_stands_still_while_the_process_is_stopped() {
        let mut silence = Silence::default();
        run(&mut silence, SECOND_NS, 2 * SECOND_NS);
        let before = silence.awake_ns();
        assert!(silence.advance(3600 * SECOND_NS));
        assert_eq!(silence.awake_ns() - before, MOST_COUNTED_NS);
        assert!(!silence.advance(3600 * SECOND_NS + PAUSE_NS - 1), "too soon");
    }

    #[test]
    fn silence_lasts_from_the_question_or_the_last_answer() {
        let mut silence = Silence::default();
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
