//! Movement of lines between the cache levels.

use super::{Demanded, Hierarchy, LevelResult};
use crate::cache::{EXCLUSIVE, LINE_SHIFT, Line, MODIFIED, UNUSED};
use crate::placement::AccessKind;
use crate::processor::InclusionPolicy;
use crate::window::ServedBy;

impl Hierarchy {
    /// Brings a line into the first-level cache of a core for a load or a store, and returns the level that served it.
    pub(super) fn demand(&mut self, thread: usize, core: usize, line: u64, is_store: bool) -> Demanded {
        let demanded = match self.cores[core].l1.touch(line) {
            Some(flags) => {
                let is_first_use = *flags & UNUSED != 0;
                *flags &= !UNUSED;
                Demanded { served: ServedBy::L1, near: 0, is_first_use }
            }
            None => {
                let found = self.find_below_l1(thread, core, line, is_store);
                self.fill_l1(core, line, found.flags & EXCLUSIVE);
                Demanded { served: found.served, near: found.near, is_first_use: true }
            }
        };
        if is_store {
            self.own(core, line);
        }
        demanded
    }

    pub(super) fn find_below_l1(
        &mut self,
        thread: usize,
        core: usize,
        line: u64,
        is_store: bool,
    ) -> LevelResult {
        if let Some(flags) = self.cores[core].l2.touch(line) {
            return LevelResult { served: ServedBy::L2, near: 0, flags: *flags };
        }
        let found = self.fetch(thread, core, line, is_store);
        self.fill_l2(thread, core, line, found.flags);
        found
    }

    /// Fetches a line that is not in the core's second-level cache from the last-level cache, from another core, or
    /// from memory.
    pub(super) fn fetch(&mut self, thread: usize, core: usize, line: u64, is_store: bool) -> LevelResult {
        let others = self.snoop(core, line, is_store);
        let own = core / self.group;
        let in_last_level = self.last_levels[own].touch(line).map(|flags| *flags);
        let is_alone = is_store || !(others.is_private || others.is_in_last_level);
        let (served, near) = match in_last_level {
            _ if others.is_modified => (ServedBy::Peer, 0),
            Some(_) => (ServedBy::L3, 0),
            None if others.is_private => (ServedBy::Peer, 0),
            None => (ServedBy::Memory, self.near(line << LINE_SHIFT, AccessKind::Read)),
        };
        let is_modified = others.is_modified || in_last_level.is_some_and(|flags| flags & MODIFIED != 0);
        let modified = if is_modified { MODIFIED } else { 0 };
        let exclusive = if is_alone { EXCLUSIVE } else { 0 };
        let flags = match self.content {
            InclusionPolicy::Victims if is_alone => {
                self.last_levels[own].remove(line);
                EXCLUSIVE | modified
            }
            InclusionPolicy::Victims => {
                if is_modified {
                    self.put_in_last_level(thread, own, line, MODIFIED);
                }
                0
            }
            InclusionPolicy::Inclusive => {
                self.put_in_last_level(thread, own, line, modified);
                exclusive
            }
        };
        LevelResult { served, near, flags }
    }

    /// Prepares a line in a core's first-level cache for a store: invalidates all copies in other caches, and marks the
    /// line as modified.
    fn own(&mut self, core: usize, line: u64) {
        let is_alone = self.cores[core].l1.find(line).is_some_and(|flags| *flags & EXCLUSIVE != 0);
        if !is_alone {
            self.snoop(core, line, true);
            if self.content == InclusionPolicy::Victims {
                self.last_levels[core / self.group].remove(line);
            }
        }
        let core = &mut self.cores[core];
        let flags = core.l1.find(line).expect("a store's line was brought to the first level");
        *flags |= EXCLUSIVE | MODIFIED;
        let flags = core.l2.find(line).expect("the second level contains the first");
        *flags |= EXCLUSIVE;
    }

    /// Copies a line from the second-level cache to the first-level cache of a core.
    pub(super) fn fill_l1(&mut self, core: usize, line: u64, flags: u64) {
        let core = &mut self.cores[core];
        let Some(victim) = core.l1.insert(line, flags) else { return };
        if victim.flags & MODIFIED != 0 {
            let flags = core.l2.find(victim.number).expect("the second level contains the first");
            *flags |= MODIFIED;
        }
    }

    /// Inserts a line into the second-level cache of a core. If this evicts another line, the evicted line moves to the
    /// last-level cache.
    pub(super) fn fill_l2(&mut self, thread: usize, core: usize, line: u64, flags: u64) {
        let Some(victim) = self.cores[core].l2.insert(line, flags) else { return };
        let in_l1 = self.cores[core].l1.remove(victim.number).unwrap_or(0);
        let modified = (victim.flags | in_l1) & MODIFIED;
        self.put_in_last_level(thread, core / self.group, victim.number, modified);
    }

    /// Inserts a line into a last-level cache. If this cache already contains the line, only the line's modified flag
    /// is updated.
    fn put_in_last_level(&mut self, thread: usize, group: usize, line: u64, modified: u64) {
        if let Some(flags) = self.last_levels[group].touch(line) {
            *flags |= modified;
            return;
        }
        let Some(victim) = self.last_levels[group].insert(line, modified) else { return };
        if self.leaves_memory(group, victim) {
            self.write_back(thread, victim.number);
        }
    }

    /// Handles the eviction of a line from a last-level cache. If this cache is inclusive, the line is also invalidated
    /// in the private caches. Returns whether any copy of the line was modified, so that the line has to be written
    /// back.
    fn leaves_memory(&mut self, group: usize, victim: Line) -> bool {
        let mut flags = victim.flags;
        if self.content == InclusionPolicy::Inclusive {
            let end = self.cores.len().min((group + 1) * self.group);
            for core in &mut self.cores[group * self.group..end] {
                if let Some(in_l2) = core.l2.remove(victim.number) {
                    flags |= in_l2 | core.l1.remove(victim.number).unwrap_or(0);
                }
            }
        }
        flags & MODIFIED != 0
    }
}
