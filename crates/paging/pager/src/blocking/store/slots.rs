//! Slots with contents that are no longer needed. The helper thread empties them, because the pager's thread cannot.

use crate::helper::{self, HelperCall};
use crate::reserved_region;
use crate::sys::PAGE;
use crate::table::RecordId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Slots that have to be emptied.
#[derive(Default)]
pub(super) struct SlotsToEmpty {
    /// Records without a page, whose slots are full.
    garbage: Vec<RecordId>,
    /// Records of pages whose contents are at the memory node, and whose slots are full.
    vacated: Vec<RecordId>,
    /// Slots that are being emptied, in the order in which the helper works on them.
    emptying: VecDeque<Emptying>,
}

/// Slots that the helper is emptying with one order.
pub(super) struct Emptying {
    order: u32,
    pub ids: Vec<RecordId>,
    /// True if the records no longer have pages; false if their pages are at the memory node.
    pub garbage: bool,
}

impl SlotsToEmpty {
    /// Schedules the slot of a record without a page for emptying.
    pub(super) fn discard(&mut self, id: RecordId) {
        self.garbage.push(id);
    }

    /// Schedules the slot of a page whose contents are at the memory node for emptying.
    pub(super) fn vacate(&mut self, id: RecordId) {
        self.vacated.push(id);
    }

    /// Returns the next slots that the helper has emptied, if any.
    pub(super) fn next_emptied(&mut self) -> Option<Emptying> {
        let is_emptied = self.emptying.front().is_some_and(|first| helper::is_done(first.order));
        if is_emptied { self.emptying.pop_front() } else { None }
    }

    /// Orders the helper to empty slots. Slots of discarded records are included only if `is_forgotten` returns true.
    pub(super) fn order(&mut self, mut is_forgotten: impl FnMut(RecordId) -> bool) {
        // Vacated slots come first: a slot may be in both lists, and its record is free when the second order is done.
        let mut vacated = core::mem::take(&mut self.vacated);
        self.have_emptied(&mut vacated, false);
        self.vacated = vacated;
        if !self.vacated.is_empty() {
            return;
        }
        let mut forgotten = self.garbage.extract_if(.., |id| is_forgotten(*id)).collect();
        self.have_emptied(&mut forgotten, true);
        self.garbage.append(&mut forgotten);
    }

    /// Orders the helper to empty the slots of `ids`; leaves those in `ids` for which the helper's ring has no room.
    fn have_emptied(&mut self, ids: &mut Vec<RecordId>, garbage: bool) {
        ids.sort_unstable();
        while let Some(last) = ids.last().copied() {
            let run = 1 + ids.windows(2).rev().take_while(|pair| pair[0] + 1 == pair[1]).count();
            let first = last + 1 - run as RecordId;
            let Some(order) =
                helper::post(HelperCall::Forget { at: reserved_region::slot(first), len: run * PAGE })
            else {
                return;
            };
            let ids = ids.split_off(ids.len() - run);
            self.emptying.push_back(Emptying { order, ids, garbage });
        }
    }
}
