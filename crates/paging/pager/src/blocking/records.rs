//! End of records: pages that are not tracked any more, and the emptying of their slots.

use super::pager::Pager;
use crate::table::{Contents, Id};
use rustix::io::Errno;

impl Pager {
    /// Stops tracking a page whose contents are not in the program, and has its slot emptied.
    pub(super) fn discard(&mut self, id: Id) {
        self.pages.table.detach(id);
        self.dropped(id);
        self.slots.discard(id);
    }

    /// Stops tracking a page whose contents, if any, are in the program.
    pub(super) fn untrack(&mut self, id: Id) {
        let record = self.pages.table.get(id);
        match record.held || record.emptying {
            true => self.discard(id),
            false => self.pages.table.remove(id),
        }
    }

    /// Copies a page back into memory that is not writable right now, or locked, where `UFFDIO_MOVE` refuses. The
    /// copy leaves the slot full, so the page gets another record, which is returned.
    pub(super) fn copy_back(&mut self, id: Id, address: usize) -> Result<Id, Errno> {
        let contents = self.contents(id).expect("the page is here");
        self.memory.copy(self.control, address, contents)?;
        let record = *self.pages.table.get(id);
        self.discard(id);
        Ok(self.pages.track_again(&record))
    }

    /// Gets back records whose slots were emptied, and has more emptied.
    pub(super) fn recycle(&mut self) {
        while let Some(done) = self.slots.next_emptied() {
            for id in done.ids {
                self.emptied(id, done.garbage);
            }
        }
        let mut slots = core::mem::take(&mut self.slots);
        slots.order(|id| self.is_forgotten(id));
        self.slots = slots;
    }

    fn emptied(&mut self, id: Id, garbage: bool) {
        self.pages.table.get_mut(id).emptying = false;
        match (garbage, &mut self.node) {
            (true, _) => self.pages.table.release(id),
            (false, Some(node)) => node.full_slots -= 1,
            (false, None) => {}
        }
    }

    /// Returns whether the node has forgotten a record that is no longer needed, too.
    fn is_forgotten(&mut self, id: Id) -> bool {
        let Some(node) = &mut self.node else { return true };
        let record = self.pages.table.get_mut(id);
        if matches!(record.contents, Contents::Leaving | Contents::Coming) {
            return false;
        }
        if record.held && node.client.forget(&[id]) == 0 {
            return false;
        }
        record.held = false;
        true
    }

    /// Handles a page under way that the program dropped before it was moved in.
    pub(super) fn dropped(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        let record = self.pages.table.get_mut(id);
        if record.contents == Contents::Landed && node.landed(id).is_some() {
            record.contents = Contents::AtNode;
            node.spare_landing(id);
        }
        if record.contents == Contents::Leaving && node.client.withdraw(id) {
            (record.contents, record.held) = (Contents::Slot, false);
            node.full_slots -= 1;
        }
    }
}
