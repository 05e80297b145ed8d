//! Watch over the run's owner and over a silent memory node.

use super::silence::SilenceClock;
use crate::control::{ControlHead, FOR_PAGES, FOR_ROOM, ProcessSlot};
use crate::gate;
use crate::node::Owed;
use crate::owner::RunOwner;
use crate::sys::now_ns;
use core::sync::atomic::Ordering::Relaxed;

/// State of the processes on which one process's pager depends: the owner of the run, and the memory node.
pub(super) struct Dependents {
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    owner: RunOwner,
    silence: SilenceClock,
    /// True if the process is to continue without its pager when `unrack` ends.
    is_borrowed: bool,
    /// True if `unrack` was killed.
    is_orphaned: bool,
}

impl Dependents {
    pub(super) fn new(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        owner: RunOwner,
        is_borrowed: bool,
    ) -> Dependents {
        Dependents { control, slot, owner, silence: SilenceClock::default(), is_borrowed, is_orphaned: false }
    }

    /// Returns the time in ns that passed while the pager's thread ran.
    pub(super) fn awake_ns(&self) -> u64 {
        self.silence.awake_ns()
    }

    /// Returns whether borrowed memory is to be given back now.
    pub(super) fn is_recalled(&self) -> bool {
        self.is_borrowed && (self.is_orphaned || self.control.settings.recall.load(Relaxed) != 0)
    }

    /// Checks the run's owner, and advances the clock. Returns whether it is time to check the node. The call is cheap enough for every
    /// tick and every wait.
    pub(super) fn advance(&mut self) -> bool {
        let now = now_ns();
        if self.owner.was_killed(now) {
            match self.is_borrowed {
                true => self.is_orphaned = true,
                false => gate::die_orphaned(self.control),
            }
        }
        self.silence.advance(now)
    }

    /// Publishes for `unrack` how long the node has been silent although it owes an answer. `oldest_ns`: time when the oldest fetch began
    /// whose page has not arrived.
    pub(super) fn note_node(&mut self, owed: Option<Owed>, heard: u64, oldest_ns: Option<u64>) {
        let silent_ns = self.silence.silent_ns(owed.is_some(), heard);
        let for_pages = oldest_ns.is_some() || owed == Some(Owed::Pages);
        let oldest_ns = oldest_ns.map_or(0, |begun_ns| self.silence.awake_ns() - begun_ns);
        self.slot.waits_for.store(if for_pages { FOR_PAGES } else { FOR_ROOM }, Relaxed);
        self.slot.waited_ns.store(silent_ns.max(oldest_ns), Relaxed);
    }
}
