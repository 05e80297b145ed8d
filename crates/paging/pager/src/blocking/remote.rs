//! Location of taken pages: in place, or at a memory node.
//!
//! Without a node, contents stay in their slot of the arena, and being remote only means a delay. With a node
//! they leave:
//! ```text
//!   in the slot --store--> leaving --stored--> at the node --load--> coming --loaded--> landed
//! ```
//! A page faulted on while it is leaving is taken back if its store was not sent yet; else it goes back from its
//! slot as soon as the store is done. Loaded pages arrive in a landing ([`super::landings`]), and are moved into
//! the program from there.

use super::landings::Node;
use super::pager::Pager;
use crate::den;
use crate::gate;
use crate::node::{self, PageCompletion, Rejected};
use crate::sys::PAGE;
use crate::table::{Contents, Id, State};

impl Pager {
    /// Connects to the run's memory node before the first page goes there: most forked processes never send one.
    pub(super) fn connect(&mut self) {
        if self.node.is_some() {
            return;
        }
        if let Some(address) = self.control.settings.node() {
            match Node::connect(address, self.control, self.slot) {
                Ok(node) => self.node = Some(node),
                Err(error) => self.lose_node(error),
            }
        }
    }

    fn lose_node(&self, error: node::Error) -> ! {
        gate::die(self.control, &alloc::fmt::format(format_args!("{error}")))
    }

    fn lose_room(&self) -> ! {
        let node::NodeLimits { capacity, share } =
            self.node.as_ref().map(|node| node.client.limits()).unwrap_or_default();
        let mib = |pages: u64| (pages as usize * PAGE) >> 20;
        let text = format_args!(
            "the memory node is full, or this client has its share of it ({} of {} MiB): serve with a larger \
             --capacity or --per-client, or keep more local",
            mib(share),
            mib(capacity)
        );
        gate::die(self.control, &alloc::fmt::format(text))
    }

    /// Returns where a taken page's contents are, if they are in this process.
    pub(super) fn contents(&self, id: Id) -> Option<usize> {
        match self.pages.table.get(id).contents {
            Contents::Slot => Some(den::slot(id)),
            Contents::Landed => self.node.as_ref()?.landed(id),
            Contents::Leaving | Contents::AtNode | Contents::Coming => None,
        }
    }

    /// Notes that a page was moved out of the place from [`Pager::contents`]: its landing has no memory now.
    pub(super) fn contents_moved(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        let record = self.pages.table.get_mut(id);
        if record.contents == Contents::Landed {
            node.bare_landing(id);
        }
        record.contents = Contents::Slot;
    }

    /// Sends an inactive page to the node. Returns false if the node is too busy now.
    pub(super) fn send_out(&mut self, id: Id, changed: bool) -> bool {
        let Some(node) = &mut self.node else { return true };
        let record = self.pages.table.get_mut(id);
        if record.held && !changed {
            record.contents = Contents::AtNode;
            node.full_slots += 1;
            self.vacate(id);
            return true;
        }
        // SAFETY: the slot's page does not change while the record says that it is leaving.
        match unsafe { node.client.store(id, den::slot(id)) } {
            Ok(()) => {
                record.contents = Contents::Leaving;
                node.full_slots += 1;
                true
            }
            Err(Rejected::Full) => false,
            Err(Rejected::NotHeld | Rejected::BadId) => {
                gate::die(self.control, "the memory node cannot name as many pages as this program has")
            }
        }
    }

    /// Takes a page back whose store was not sent yet. Its contents are in its slot again.
    pub(super) fn withdraw(&mut self, id: Id) -> bool {
        let Some(node) = &mut self.node else { return false };
        let record = self.pages.table.get_mut(id);
        if record.contents != Contents::Leaving || !node.client.withdraw(id) {
            return false;
        }
        node.full_slots -= 1;
        (record.contents, record.held, record.dirty) = (Contents::Slot, false, true);
        true
    }

    /// Requests the load of a page that is being fetched, unless it is under way, or here.
    pub(super) fn ask_for(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        if self.pages.table.get(id).contents != Contents::AtNode {
            return;
        }
        let Some(landing) = node.take_landing(&self.memory) else { return };
        let at = den::landing(landing);
        // SAFETY: the landing's page was just put there, and only this load uses it.
        match unsafe { node.client.load(id, at) } {
            Ok(()) => {
                node.loading(id, landing);
                self.pages.table.get_mut(id).contents = Contents::Coming;
            }
            Err(Rejected::Full) => node.give_landing_back(landing),
            Err(Rejected::NotHeld | Rejected::BadId) => gate::die(
                self.control,
                "internal error: a page is neither here nor remote. Please report this",
            ),
        }
    }

    /// Requests pending loads, exchanges bytes with the node, and handles completed requests.
    pub(super) fn progress(&mut self) {
        if self.node.is_none() {
            return;
        }
        for n in 0..self.pending.len() {
            self.ask_for(self.pending[n].id);
        }
        let Some(node) = &mut self.node else { return };
        let mut done = core::mem::take(&mut node.done);
        let result = node.client.progress(&mut done);
        for completion in done.drain(..) {
            match completion {
                PageCompletion::Stored { id } => self.stored(id),
                PageCompletion::Loaded { id } => self.loaded(id),
                PageCompletion::Refused { .. } => self.lose_room(),
            }
        }
        if let Some(node) = &mut self.node {
            node.done = done;
        }
        if let Err(error) = result {
            self.lose_node(error);
        }
    }

    fn stored(&mut self, id: Id) {
        let record = self.pages.table.get_mut(id);
        record.held = true;
        if record.state == State::Remote {
            record.contents = Contents::AtNode;
            return self.vacate(id);
        }
        // The page is wanted back meanwhile, or not needed any more: its slot is the best place.
        record.contents = Contents::Slot;
        if let Some(node) = &mut self.node {
            node.full_slots -= 1;
        }
    }

    fn loaded(&mut self, id: Id) {
        let record = self.pages.table.get_mut(id);
        if record.state != State::Free {
            record.contents = Contents::Landed;
            return;
        }
        record.contents = Contents::AtNode;
        let Some(node) = &mut self.node else { return };
        if node.landed(id).is_some() {
            node.spare_landing(id);
        }
    }

    /// Empties the slot of a page that the node holds.
    fn vacate(&mut self, id: Id) {
        let Some(node) = &mut self.node else { return };
        if node.land_slot(&self.memory, id) {
            node.full_slots -= 1;
            return;
        }
        self.pages.table.get_mut(id).emptying = true;
        self.slots.vacate(id);
    }

    /// Sends what is queued, although no batch is full.
    pub(super) fn flush(&mut self) {
        if let Some(node) = &mut self.node {
            node.client.flush();
        }
    }
}
