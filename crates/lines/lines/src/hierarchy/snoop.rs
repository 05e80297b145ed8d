//! Coherence: copies of a line in other caches, and their invalidation.

use super::Hierarchy;
use crate::cache::{EXCLUSIVE, MODIFIED};

/// Copies of a line outside a core and its last level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// Whether another core's private caches contain it.
    pub is_private: bool,
    /// Whether another last level contains it.
    pub is_in_last_level: bool,
    /// Whether one of these copies was modified.
    pub is_modified: bool,
}

impl Hierarchy {
    /// Snoops all other caches for a line. A load leaves them with clean copies, and a store invalidates their
    /// copies. If the result says that a copy was modified, the caller must keep the line as modified.
    pub(super) fn snoop(&mut self, core: usize, line: u64, is_store: bool) -> Others {
        let mut others = Others::default();
        if self.cores.len() == 1 {
            return others;
        }
        for (number, other) in self.cores.iter_mut().enumerate() {
            if number == core {
                continue;
            }
            let Some(flags) = other.l2.find(line) else { continue };
            let in_l1 = other.l1.find(line);
            others.is_private = true;
            others.is_modified |= (*flags | in_l1.as_ref().map_or(0, |flags| **flags)) & MODIFIED != 0;
            *flags &= !(MODIFIED | EXCLUSIVE);
            in_l1.into_iter().for_each(|flags| *flags &= !(MODIFIED | EXCLUSIVE));
            if is_store {
                other.l1.remove(line);
                other.l2.remove(line);
            }
        }
        self.snoop_last_levels(core / self.group, line, is_store, &mut others);
        others
    }

    fn snoop_last_levels(&mut self, own: usize, line: u64, is_store: bool, others: &mut Others) {
        for (group, last_level) in self.last_levels.iter_mut().enumerate() {
            let Some(flags) = last_level.find(line).filter(|_| group != own) else { continue };
            others.is_in_last_level = true;
            others.is_modified |= *flags & MODIFIED != 0;
            *flags &= !MODIFIED;
            if is_store {
                last_level.remove(line);
            }
        }
    }

    /// Removes a line from all caches, because a store that bypasses them is about to write it to memory.
    ///
    /// Departure: a processor first writes back a modified line that such a store overwrites only in part.
    pub(super) fn discard(&mut self, core: usize, line: u64) {
        self.snoop(core, line, true);
        self.cores[core].l1.remove(line);
        self.cores[core].l2.remove(line);
        self.last_levels[core / self.group].remove(line);
    }
}
