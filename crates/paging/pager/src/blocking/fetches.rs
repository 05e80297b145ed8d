//! Fetches in flight: pages that were requested and have not been given to the program yet.

use crate::table::RecordId;
use alloc::vec::Vec;

/// A fault as the kernel reported it.
#[derive(Clone, Copy)]
pub(super) struct KernelFault {
    pub address: usize,
    pub write: bool,
    pub thread: u32,
    /// Time when the pager read the fault (monotonic ns).
    pub read_ns: u64,
}

/// A fetch in flight.
#[derive(Clone, Copy)]
pub(super) struct Fetch {
    pub id: RecordId,
    /// The fault for which the page is fetched; the page may have moved to another address since.
    pub fault: KernelFault,
    pub due_ns: u64,
    /// Time of the request, on the clock of the [`watch`](super::watch).
    pub begun_ns: u64,
    /// True if a thread waits for the page, because the page was not fetched ahead or not early enough.
    pub is_awaited: bool,
}

/// All fetches in flight. The caller must state whether a page has arrived, because contents may be at a memory node.
#[derive(Default)]
pub(super) struct Fetches {
    under_way: Vec<Fetch>,
}

impl Fetches {
    /// Records a fetch that begins.
    pub(super) fn begin(&mut self, fetch: Fetch) {
        self.under_way.push(fetch);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns the pages in flight.
    pub(super) fn ids(&self) -> impl Iterator<Item = RecordId> {
        self.under_way.iter().map(|fetch| fetch.id)
    }

    /// Returns the fetch of a page.
    pub(super) fn find(&mut self, id: RecordId) -> Option<&mut Fetch> {
        self.under_way.iter_mut().find(|fetch| fetch.id == id)
    }

    /// Removes the fetch of a page, and returns it.
    pub(super) fn remove(&mut self, id: RecordId) -> Option<Fetch> {
        let at = self.under_way.iter().position(|fetch| fetch.id == id)?;
        Some(self.under_way.remove(at))
    }

    /// Removes the first fetch that is due and whose page has arrived, and returns it.
    pub(super) fn take_due(&mut self, now_ns: u64, is_here: impl Fn(RecordId) -> bool) -> Option<Fetch> {
        let is_due = |fetch: &Fetch| fetch.due_ns <= now_ns && is_here(fetch.id);
        let at = self.under_way.iter().position(is_due)?;
        Some(self.under_way.remove(at))
    }

    /// Removes the fetch that began last, and returns it.
    pub(super) fn pop(&mut self) -> Option<Fetch> {
        self.under_way.pop()
    }

    /// Returns the time when the next fetch is due, either of those that a thread waits for or of the others. Only pages that have arrived
    /// from a memory node are considered.
    pub(super) fn next_due_ns(&self, is_awaited: bool, is_here: impl Fn(RecordId) -> bool) -> Option<u64> {
        let asked = self.under_way.iter().filter(|fetch| fetch.is_awaited == is_awaited);
        asked.filter(|fetch| is_here(fetch.id)).map(|fetch| fetch.due_ns).min()
    }

    /// Returns the fetches whose pages have not arrived yet.
    pub(super) fn coming(&self, is_here: impl Fn(RecordId) -> bool) -> impl Iterator<Item = &Fetch> {
        self.under_way.iter().filter(move |fetch| !is_here(fetch.id))
    }
}
