//! Cache coherence: search for copies of a line in other caches, and invalidation of these copies.

use super::Hierarchy;
use crate::cache::{EXCLUSIVE, MODIFIED};

/// Copies of a line outside the requesting core and its last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// Whether the private caches of another core contain the line.
    pub is_private: bool,
    /// Whether another last-level cache contains the line.
    pub is_in_last_level: bool,
    /// Whether one of these copies of the line was modified.
    pub is_modified: bool,
}

impl Hierarchy {
    /// Snoops all caches other than those of the core `core` for a line. If the access is a load, copies in these
    /// caches become clean; if it is a store, they are invalidated. If the result states that a copy was modified, the
    /// caller must keep the line as modified.
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

    /// Removes a line from all caches, because a store that bypasses the caches is about to write the line to memory.
    ///
    /// Departure: if such a store overwrites only a part of a modified line, a real processor first writes the line
    /// back.
    pub(super) fn discard(&mut self, core: usize, line: u64) {
        self.snoop(core, line, true);
        self.cores[core].l1.remove(line);
        self.cores[core].l2.remove(line);
        self.last_levels[core / self.group].remove(line);
    }
}
