//! Lines that prefetchers bring into the caches.

use super::prefetch::LinesAhead;
use super::{Hierarchy, LevelResult, Prefetched, Request, line_of};
use crate::cache::{EXCLUSIVE, UNUSED};
use crate::window::ServedBy;

impl Hierarchy {
    /// Trains the prefetchers with an access that missed the first-level cache or was the first use of a prefetched
    /// line. Then it fetches the lines that the prefetchers request.
    pub(super) fn prefetch(&mut self, thread: usize, core: usize, request: &Request, served: ServedBy) {
        if served != ServedBy::L1 {
            let ahead = self.cores[core].prefetchers.requested(line_of(request.address));
            self.prefetch_to_l2(thread, core, ahead);
        }
        if request.kind.is_store() {
            return;
        }
        let lines = self.cores[core].prefetchers.loaded(request.instruction, request.address);
        for line in lines.into_iter().flatten() {
            self.prefetch_to_l1(thread, core, line);
        }
    }

    fn prefetch_to_l1(&mut self, thread: usize, core: usize, line: u64) {
        if self.cores[core].l1.find(line).is_some() {
            return;
        }
        let found = self.find_below_l1(thread, core, line, false);
        self.fill_l1(core, line, found.flags & EXCLUSIVE | UNUSED);
        self.brought(thread, line, &found);
        let ahead = self.cores[core].prefetchers.requested(line);
        self.prefetch_to_l2(thread, core, ahead);
    }

    fn prefetch_to_l2(&mut self, thread: usize, core: usize, lines: LinesAhead) {
        let mut are_hits = true;
        for line in lines {
            if self.cores[core].l2.find(line).is_some() {
                continue;
            }
            are_hits = false;
            let found = self.fetch(thread, core, line, false);
            self.fill_l2(thread, core, line, found.flags);
            self.brought(thread, line, &found);
        }
        if !lines.is_empty() {
            self.cores[core].prefetchers.found(are_hits);
        }
    }

    fn brought(&mut self, thread: usize, line: u64, found: &LevelResult) {
        let &LevelResult { served, near, .. } = found;
        self.threads[thread].counters.prefetches[served as usize] += 1;
        self.prefetched.push(Prefetched { line: line << crate::cache::LINE_SHIFT, served, near });
    }
}
