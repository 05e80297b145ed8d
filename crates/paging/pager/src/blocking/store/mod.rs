//! Contents of evicted pages: in place, or at a memory node.
//!
//! Without a node, contents stay in their slot of the arena, and "remote" only means that a fetch is delayed. With a node, the contents
//! leave the process:
//! ```text
//!   in the slot --store--> leaving --stored--> at the node --load--> coming --loaded--> landed
//! ```
//! If the program touches a page that is leaving, the pager withdraws the store if it was not sent yet; otherwise the page returns from its
//! slot as soon as the store is complete. Loaded pages arrive in a landing ([`landings`]) and are moved into the program from there.
//!
//! The store owns the session with the node and the list of slots to be emptied ([`slots`]). The caller owns the table of pages, because
//! other parts of the pager change other fields of the same records.

mod landings;
mod slots;

use self::landings::Node;
use self::slots::SlotsToEmpty;
use crate::control::{ControlHead, ProcessSlot};
use crate::gate;
use crate::memory::Memory;
use crate::node::{self, Owed, PageCompletion, Rejected};
use crate::reserved_region;
use crate::sys::PAGE;
use crate::table::{PageLocation, PageTable, RecordId, State};
use core::sync::atomic::Ordering::Relaxed;
use rustix::event::PollFd;

/// Contents of the evicted pages of one process.
pub(super) struct Store {
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    node: Option<Node>,
    slots: SlotsToEmpty,
}

impl Store {
    /// Makes the store of the process that has this `slot`; it is not connected to a node yet.
    pub(super) fn new(control: &'static ControlHead, slot: &'static ProcessSlot) -> Store {
        Store { control, slot, node: None, slots: SlotsToEmpty::default() }
    }

    /// Connects to the run's memory nodes. Called just before the first page is sent there, because most forked processes never send a
    /// page.
    pub(super) fn connect(&mut self) {
        if self.node.is_some() {
            return;
        }
        let addresses = self.control.settings.addresses();
        if addresses.is_empty() {
            return;
        }
        match Node::connect(addresses, self.control, self.slot) {
            Ok(node) => self.node = Some(node),
            Err(error) => self.lose_node(error),
        }
    }

    /// Returns whether evicted contents go to a memory node.
    pub(super) fn is_connected(&self) -> bool {
        self.node.is_some()
    }

    /// Returns the descriptor to poll for the node's answers; `None` without a node.
    pub(super) fn poll(&self) -> Option<PollFd<'_>> {
        self.node.as_ref().map(Node::poll)
    }

    /// Returns the kind of answer that the node owes, and the number of arrivals from it; `None` without a node. Of several nodes, it is the
    /// one that has owed an answer for longest, which the process's slot then names.
    pub(super) fn owed(&self) -> Option<(Option<Owed>, u64)> {
        let node = self.node.as_ref()?;
        self.slot.waits_on.store(node.awaited_node(), Relaxed);
        Some((node.client.owed(), node.client.heard()))
    }

    /// Returns the number of pages of this process's memory that hold remote pages or serve as landings; `None` without a node.
    pub(super) fn resident(&self) -> Option<usize> {
        self.node.as_ref().map(Node::resident)
    }

    fn lose_node(&self, error: node::Error) -> ! {
        gate::die(self.control, &alloc::fmt::format(format_args!("{error}")))
    }

    fn lose_room(&self) -> ! {
        let node::NodeLimits { capacity, share, .. } =
            self.node.as_ref().map(|node| node.client.limits()).unwrap_or_default();
        let settings = &self.control.settings;
        let what = match (settings.addresses().len(), settings.is_mirrored.load(Relaxed)) {
            (0..=1, _) => "the memory node is full, or this client has its share of it",
            (_, 0) => "the memory nodes are full, or this client has its share of them",
            _ => "a memory node of the mirror is full, or this client has its share of it",
        };
        let mib = |pages: u64| (pages as usize * PAGE) >> 20;
        let text = format_args!(
            "{what} ({} of {} MiB): serve with a larger --capacity or --per-client, or keep more local",
            mib(share),
            mib(capacity)
        );
        gate::die(self.control, &alloc::fmt::format(text))
    }

    /// Returns the address of the contents of a page that is out of the program, or `None` if they are not in this process.
    pub(super) fn contents(&self, table: &PageTable, id: RecordId) -> Option<usize> {
        match table.get(id).contents {
            PageLocation::Slot => Some(reserved_region::slot(id)),
            PageLocation::Landed => self.node.as_ref()?.landed(id),
            PageLocation::Leaving | PageLocation::AtNode | PageLocation::Coming => None,
        }
    }

    /// Notes that a page was moved out of the place that [`Store::contents`] returned. If that place was a landing, the landing has no
    /// memory now.
    pub(super) fn moved(&mut self, table: &mut PageTable, id: RecordId) {
        let Some(node) = &mut self.node else { return };
        let record = table.get_mut(id);
        if record.contents == PageLocation::Landed {
            node.bare_landing(id);
        }
        record.contents = PageLocation::Slot;
    }

    /// Sends an inactive page to the node. Returns false if the node is too busy now.
    pub(super) fn send_out(
        &mut self,
        table: &mut PageTable,
        memory: &Memory,
        id: RecordId,
        changed: bool,
    ) -> bool {
        let Some(node) = &mut self.node else { return true };
        let record = table.get_mut(id);
        if record.held && !changed {
            record.contents = PageLocation::AtNode;
            node.full_slots += 1;
            self.vacate(table, memory, id);
            return true;
        }
        // SAFETY: the slot's page does not change while the record says that it is leaving.
        match unsafe { node.client.store(id, reserved_region::slot(id)) } {
            Ok(()) => {
                record.contents = PageLocation::Leaving;
                node.full_slots += 1;
                true
            }
            Err(Rejected::Full) => false,
            Err(Rejected::NotHeld | Rejected::BadId) => {
                gate::die(self.control, "the memory node cannot name as many pages as this program has")
            }
        }
    }

    /// Withdraws a page whose store was not sent yet, so that its contents are in its slot again. Returns whether that succeeded.
    pub(super) fn withdraw(&mut self, table: &mut PageTable, id: RecordId) -> bool {
        let Some(node) = &mut self.node else { return false };
        let record = table.get_mut(id);
        if record.contents != PageLocation::Leaving || !node.client.withdraw(id) {
            return false;
        }
        node.full_slots -= 1;
        (record.contents, record.held, record.dirty) = (PageLocation::Slot, false, true);
        true
    }

    /// Requests the load of a page that is being fetched, unless the load is in flight or complete.
    pub(super) fn ask_for(&mut self, table: &mut PageTable, memory: &Memory, id: RecordId) {
        let Some(node) = &mut self.node else { return };
        if table.get(id).contents != PageLocation::AtNode {
            return;
        }
        let Some(landing) = node.take_landing(memory) else { return };
        let at = reserved_region::landing(landing);
        // SAFETY: the landing's page was just put there, and only this load uses it.
        match unsafe { node.client.load(id, at) } {
            Ok(()) => {
                node.loading(id, landing);
                table.get_mut(id).contents = PageLocation::Coming;
            }
            Err(Rejected::Full) => node.give_landing_back(landing),
            Err(Rejected::NotHeld | Rejected::BadId) => gate::die(
                self.control,
                "internal error: a page is neither here nor remote. Please report this",
            ),
        }
    }

    /// Exchanges bytes with the node, and handles completed requests.
    pub(super) fn progress(&mut self, table: &mut PageTable, memory: &Memory) {
        let Some(node) = &mut self.node else { return };
        let mut done = core::mem::take(&mut node.done);
        let result = node.client.progress(&mut done);
        for completion in done.drain(..) {
            match completion {
                PageCompletion::Stored { id } => self.stored(table, memory, id),
                PageCompletion::Loaded { id } => self.loaded(table, id),
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

    /// Sends the queued stores even if no batch is full.
    pub(super) fn flush(&mut self) {
        if let Some(node) = &mut self.node {
            node.client.flush();
        }
    }

    fn stored(&mut self, table: &mut PageTable, memory: &Memory, id: RecordId) {
        let record = table.get_mut(id);
        record.held = true;
        if record.state == State::Remote {
            record.contents = PageLocation::AtNode;
            return self.vacate(table, memory, id);
        }
        // Meanwhile the program needed the page again, or dropped it. Therefore its contents stay in the slot.
        record.contents = PageLocation::Slot;
        if let Some(node) = &mut self.node {
            node.full_slots -= 1;
        }
    }

    fn loaded(&mut self, table: &mut PageTable, id: RecordId) {
        let record = table.get_mut(id);
        if record.state != State::Free {
            record.contents = PageLocation::Landed;
            return;
        }
        record.contents = PageLocation::AtNode;
        let Some(node) = &mut self.node else { return };
        if node.landed(id).is_some() {
            node.spare_landing(id);
        }
    }

    /// Empties the slot of a page whose contents are at the node.
    fn vacate(&mut self, table: &mut PageTable, memory: &Memory, id: RecordId) {
        let Some(node) = &mut self.node else { return };
        if node.land_slot(memory, id) {
            node.full_slots -= 1;
            return;
        }
        table.get_mut(id).emptying = true;
        self.slots.vacate(id);
    }

    /// Stops tracking a page whose contents are not in the program, and has its slot emptied.
    pub(super) fn discard(&mut self, table: &mut PageTable, id: RecordId) {
        table.detach(id);
        self.dropped(table, id);
        self.slots.discard(id);
    }

    /// Stops tracking a page whose contents, if any, are in the program.
    pub(super) fn untrack(&mut self, table: &mut PageTable, id: RecordId) {
        let record = table.get(id);
        match record.held || record.emptying {
            true => self.discard(table, id),
            false => table.remove(id),
        }
    }

    /// Handles a page in flight that the program dropped before the page was moved in.
    pub(super) fn dropped(&mut self, table: &mut PageTable, id: RecordId) {
        let Some(node) = &mut self.node else { return };
        let record = table.get_mut(id);
        if record.contents == PageLocation::Landed && node.landed(id).is_some() {
            record.contents = PageLocation::AtNode;
            node.spare_landing(id);
        }
        if record.contents == PageLocation::Leaving && node.client.withdraw(id) {
            (record.contents, record.held) = (PageLocation::Slot, false);
            node.full_slots -= 1;
        }
    }

    /// Frees records whose slots were emptied, and orders more slots to be emptied.
    pub(super) fn recycle(&mut self, table: &mut PageTable) {
        while let Some(done) = self.slots.next_emptied() {
            for id in done.ids {
                self.emptied(table, id, done.garbage);
            }
        }
        let Store { node, slots, .. } = self;
        slots.order(|id| is_forgotten(node.as_mut(), table, id));
    }

    fn emptied(&mut self, table: &mut PageTable, id: RecordId, garbage: bool) {
        table.get_mut(id).emptying = false;
        match (garbage, &mut self.node) {
            (true, _) => table.release(id),
            (false, Some(node)) => node.full_slots -= 1,
            (false, None) => {}
        }
    }
}

/// Returns whether a record that is no longer needed is out of use at the node as well. Asks the node to drop its copy if necessary.
fn is_forgotten(node: Option<&mut Node>, table: &mut PageTable, id: RecordId) -> bool {
    let Some(node) = node else { return true };
    let record = table.get_mut(id);
    if matches!(record.contents, PageLocation::Leaving | PageLocation::Coming) {
        return false;
    }
    if record.held && node.client.forget(&[id]) == 0 {
        return false;
    }
    record.held = false;
    true
}
