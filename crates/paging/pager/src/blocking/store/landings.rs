//! Session of a process with a memory node, and its landings: pages of the reserved region that are always present, in which loaded pages
//! arrive before the pager moves them into the program.
//!
//! The memory of a slot becomes a landing when the slot's contents are at the node. Therefore no memory is allocated or freed in the steady
//! state.

use crate::control::{ControlHead, FOR_GREETING, ProcessSlot};
use crate::memory::Memory;
use crate::node::{self, Address, Client, PageCompletion, Redundancy};
use crate::reserved_region::{self, LANDINGS};
use crate::sys::PAGE;
use crate::table::RecordId;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use rustix::event::PollFd;

/// Maximum number of spare landings with memory that are kept for the next loads.
const SPARE: usize = 64;

/// Time in ns by which the session's patience exceeds that of `unrack`. This lets `unrack` end the run first, because its message is more
/// detailed.
const SECOND_THOUGHT_NS: u64 = 5_000_000_000;

/// Load of a page that is in flight from the node.
struct PageLoad {
    id: RecordId,
    landing: u32,
}

/// Session of this process with the run's memory nodes, and the landings.
pub(super) struct Node {
    pub client: Client,
    pub done: Vec<PageCompletion>,
    loads: Vec<PageLoad>,
    /// Landings that have memory but hold no page that is needed.
    spare: Vec<u32>,
    /// Landings without memory.
    bare: Vec<u32>,
    /// Number of slots whose contents are being stored, or are stored but not yet emptied.
    pub full_slots: usize,
}

impl Node {
    /// Connects to the memory nodes, to each for at most the run's patience. Meanwhile, `slot` shows that the process waits for the
    /// greeting.
    pub(super) fn connect(
        addresses: Vec<Address>,
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
    ) -> Result<Node, node::Error> {
        slot.waits_on.store(0, Relaxed);
        slot.waits_for.store(FOR_GREETING, Relaxed);
        let timeout_ns = control.settings.patience_ns.load(Relaxed);
        let waited_ns = Some(&slot.waited_ns);
        let patience_ns = timeout_ns.saturating_add(SECOND_THOUGHT_NS);
        let settings = |(address, counts)| node::NodeSettings {
            timeout_ns,
            waited_ns,
            patience_ns,
            counts: Some(counts),
            ..node::NodeSettings::new(address)
        };
        let nodes: Vec<_> = addresses.into_iter().zip(&control.node_counts).map(settings).collect();
        let client = Client::connect_all(&nodes, redundancy(control))?;
        slot.waited_ns.store(0, Relaxed);
        Ok(Node {
            client,
            done: Vec::new(),
            loads: Vec::new(),
            spare: Vec::new(),
            bare: (0..LANDINGS as u32).collect(),
            full_slots: 0,
        })
    }

    /// Returns the number of pages of this process's memory that hold remote pages or serve as landings.
    pub(super) fn resident(&self) -> usize {
        self.full_slots + LANDINGS - self.bare.len()
    }

    /// Takes a landing with memory; returns `None` if all are in use or the address space is changing.
    pub(super) fn take_landing(&mut self, memory: &Memory) -> Option<u32> {
        if let Some(spare) = self.spare.pop() {
            return Some(spare);
        }
        let bare = self.bare.pop()?;
        if memory.fill(reserved_region::landing(bare), 1).1.is_err() {
            self.bare.push(bare);
            return None;
        }
        Some(bare)
    }

    /// Returns an unused landing with memory to the spare ones.
    pub(super) fn give_landing_back(&mut self, landing: u32) {
        self.spare.push(landing);
    }

    /// Notes that a page is being loaded into a landing.
    pub(super) fn loading(&mut self, id: RecordId, landing: u32) {
        self.loads.push(PageLoad { id, landing });
    }

    /// Returns the address of a page that was loaded, or `None` if the page is not in a landing.
    pub(super) fn landed(&self, id: RecordId) -> Option<usize> {
        let load = self.loads.iter().find(|load| load.id == id)?;
        Some(reserved_region::landing(load.landing))
    }

    /// Notes that a loaded page was moved out of its landing, which therefore has no memory now.
    pub(super) fn bare_landing(&mut self, id: RecordId) {
        let landing = self.end_load(id);
        self.bare.push(landing);
    }

    /// Notes that a loaded page is not needed, so that its landing is spare.
    pub(super) fn spare_landing(&mut self, id: RecordId) {
        let landing = self.end_load(id);
        self.spare.push(landing);
    }

    /// Makes the memory of a slot a landing if there are few spare landings. Returns false if the slot is still full.
    pub(super) fn land_slot(&mut self, memory: &Memory, id: RecordId) -> bool {
        if self.spare.len() >= SPARE {
            return false;
        }
        let Some(landing) = self.bare.pop() else { return false };
        let is_moved =
            memory.take(reserved_region::landing(landing), reserved_region::slot(id), PAGE).1.is_ok();
        if is_moved {
            self.spare.push(landing)
        } else {
            self.bare.push(landing)
        }
        is_moved
    }

    /// Returns the descriptor of the node's session for polling, with the events to poll for.
    pub(super) fn poll(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.client.fd(), self.client.interest())
    }

    /// Returns the node for which the process waits, as [`ProcessSlot::waits_on`] has it.
    pub(super) fn awaited_node(&self) -> u32 {
        self.client.awaited_node().map_or(0, |node| node as u32 + 1)
    }

    fn end_load(&mut self, id: RecordId) -> u32 {
        let at = self.loads.iter().position(|load| load.id == id).expect("it was being loaded");
        self.loads.swap_remove(at).landing
    }
}

fn redundancy(control: &ControlHead) -> Redundancy {
    let spare_patience_ns = control.settings.spare_patience_ns.load(Relaxed);
    match control.settings.is_mirrored.load(Relaxed) {
        0 => Redundancy::Striped,
        _ => Redundancy::Mirrored { spare_patience_ns },
    }
}
