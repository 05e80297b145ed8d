//! Waits for the memory node, in which changes of the program's address space are followed.

use super::pager::Pager;
use crate::control::{FOR_PAGES, FOR_ROOM};
use crate::den::LANDINGS;
use crate::gate;
use crate::node::Owed;
use crate::sys::{now_ns, timespec};
use crate::table::{Id, State};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use rustix::event::{PollFd, PollFlags};

/// Time in ns that evicting waits for a busy node before it handles faults again.
const BACK_PRESSURE_NS: u64 = 2_000_000;

impl Pager {
    /// Checks the run's owner and the node. Cheap enough for every tick and every wait.
    pub(super) fn keep_watch(&mut self) {
        let now = now_ns();
        if self.owner.was_killed(now) {
            match self.is_borrowed {
                true => self.is_orphaned = true,
                false => gate::die_orphaned(self.control),
            }
        }
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

    /// Waits for a moment until the node makes progress.
    pub(super) fn wait_for_node(&mut self) {
        self.flush();
        self.progress();
        self.keep_watch();
        let Some(node) = &self.node else { return };
        let moment = timespec(BACK_PRESSURE_NS);
        let uffd = self.memory.uffd.fd();
        let mut both = [node.poll(), PollFd::from_borrowed_fd(uffd, PollFlags::IN)];
        // An error means a signal or nothing: the caller checks by itself.
        let _ = rustix::event::poll(&mut both, Some(&moment));
        self.progress();
    }

    /// Calls `put_back` for every page of `away` as soon as it is here, including those at the node.
    pub(super) fn bring_back(&mut self, away: &[Id], mut put_back: impl FnMut(&mut Pager, Id)) {
        let mut rest = away.iter().copied();
        let mut wave: Vec<Id> = Vec::with_capacity(LANDINGS / 2);
        loop {
            let room = wave.capacity() - wave.len();
            wave.extend(rest.by_ref().take(room));
            if wave.is_empty() {
                return;
            }
            let before = wave.len();
            wave.retain(|id| {
                if self.is_away(*id) {
                    self.withdraw(*id);
                    self.ask_for(*id);
                    if self.contents(*id).is_some() {
                        put_back(self, *id);
                    }
                }
                self.is_away(*id)
            });
            if wave.len() == before {
                self.wait_for_node();
                self.read_changes();
            }
        }
    }

    /// Returns whether a page's contents are outside the program, and nobody waits for them.
    pub(super) fn is_away(&self, id: Id) -> bool {
        matches!(self.pages.table.get(id).state, State::Inactive | State::Remote)
    }
}
