//! Table of tracked pages, and the lists that reclaim works on.
//!
//! A *record* describes a tracked page: a page of the program that was seen present. The index of a record is also the number of the page's
//! slot in the arena. A three-level walk finds the record of an address: a root of 8,192 entries of 16 GiB, each of them with 8,192 leaves
//! of 512 pages, which are allocated when first needed. This covers the 47 bits of a user address on x86-64. Properties of whole mappings
//! are kept as ranges; therefore the cost of a mapping depends on the pages touched in it and not on its size.

use crate::ranges::AddressSet;
use crate::sys::PAGE;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Number of pages of a leaf.
pub const LEAF_PAGES: usize = 512;
/// Bytes of memory that a leaf covers.
pub const LEAF_BYTES: usize = LEAF_PAGES * PAGE;
const MID_LEAVES: usize = 8192;
const ROOT_MIDS: usize = 8192;

/// Index of a record; 0 means none.
pub type RecordId = u32;

/// State of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No page: the record is free.
    Free,
    /// Mapped in the program.
    Active,
    /// Mapped in the program; the last attempt to take the page out failed.
    Stuck,
    /// Taken out of the program but still local: a touch brings the page back at once.
    Inactive,
    /// Only the remote copy is left.
    Remote,
    /// Being fetched from remote memory.
    Fetching,
}

/// Location of the contents of a page that is not in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageLocation {
    Slot,
    /// In the slot, while the page is being stored at the memory node.
    Leaving,
    AtNode,
    /// Being loaded from the memory node.
    Coming,
    /// Loaded from the memory node, but not yet moved into the program.
    Landed,
}

/// A tracked page.
#[derive(Debug, Clone, Copy)]
pub struct PageRecord {
    /// Address of the page in the program.
    pub address: usize,
    /// Hash of the remote copy, if the page was ever remote.
    pub hash: u64,
    /// Time when the page last became active (monotonic ns).
    pub since_ns: u64,
    prev: RecordId,
    next: RecordId,
    pub state: State,
    /// True if the mapping of the page is certainly registered, so that the kernel will report a change of it.
    pub sure: bool,
    /// True if the page was never remote, or certainly differs from the remote copy.
    pub dirty: bool,
    pub contents: PageLocation,
    /// True if the memory node has a copy.
    pub held: bool,
    /// True if the pager's helper thread is about to empty the slot.
    pub emptying: bool,
}

const FREE: PageRecord = PageRecord {
    address: 0,
    hash: 0,
    since_ns: 0,
    prev: 0,
    next: 0,
    state: State::Free,
    sure: false,
    dirty: false,
    contents: PageLocation::Slot,
    held: false,
    emptying: false,
};

/// A doubly linked list through the records; oldest first.
#[derive(Debug, Clone, Copy, Default)]
struct RecordList {
    head: RecordId,
    tail: RecordId,
    len: usize,
}

struct Leaf {
    records: [RecordId; LEAF_PAGES],
    /// True if the program had contents of this leaf dropped, so that pages that are present may be about to disappear.
    removed: bool,
}

type Mid = Vec<Option<Box<Leaf>>>;

/// Table of tracked pages.
pub struct PageTable {
    root: Vec<Option<Mid>>,
    /// Memory that was registered with the userfaultfd. This is only a hint, because other memory may have replaced it unnoticed;
    /// [`PageRecord::sure`] is reliable.
    registered: AddressSet,
    /// Records in chunks, so that growth never copies records.
    records: Vec<Box<[PageRecord]>>,
    free: Vec<RecordId>,
    active: RecordList,
    inactive: RecordList,
    stuck: RecordList,
    remote: usize,
    fetching: usize,
}

const CHUNK: usize = 4096;

/// Name of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageList {
    Active,
    Inactive,
    Stuck,
}

impl Default for PageTable {
    fn default() -> Self {
        PageTable::new()
    }
}

impl PageTable {
    /// Makes a table without pages.
    pub fn new() -> PageTable {
        let mut root = Vec::new();
        root.resize_with(ROOT_MIDS, || None);
        PageTable {
            root,
            registered: AddressSet::default(),
            records: Vec::new(),
            free: Vec::new(),
            active: RecordList::default(),
            inactive: RecordList::default(),
            stuck: RecordList::default(),
            remote: 0,
            fetching: 0,
        }
    }

    /// Returns the length of a list.
    pub fn len(&self, queue: PageList) -> usize {
        self.list(queue).len
    }

    /// Returns the number of pages whose only copy is remote.
    pub fn remote(&self) -> usize {
        self.remote
    }

    /// Returns the number of pages that are being fetched.
    pub fn fetching(&self) -> usize {
        self.fetching
    }

    /// Returns the record with this index.
    pub fn get(&self, id: RecordId) -> &PageRecord {
        &self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Returns the record with this index for modification.
    pub fn get_mut(&mut self, id: RecordId) -> &mut PageRecord {
        &mut self.records[id as usize / CHUNK][id as usize % CHUNK]
    }

    /// Returns the record of the page at `address`, if it is tracked.
    pub fn find(&self, address: usize) -> Option<RecordId> {
        let id = self.leaf(address)?.records[page_in_leaf(address)];
        (id != 0).then_some(id)
    }

    /// Tracks a page, which is on no list yet. The new index need not be the lowest free one: neighbours that are touched in sequence get
    /// neighbouring slots, so that reclaim can move them together.
    pub fn insert(&mut self, address: usize) -> RecordId {
        let id = self.free.pop().unwrap_or_else(|| self.grow());
        *self.get_mut(id) = PageRecord { address, dirty: true, ..FREE };
        self.leaf_mut(address).records[page_in_leaf(address)] = id;
        id
    }

    /// Stops tracking a page whose slot is empty.
    pub fn remove(&mut self, id: RecordId) {
        self.detach(id);
        self.release(id);
    }

    /// Stops tracking a page. Its record is not reused before [`PageTable::release`].
    pub fn detach(&mut self, id: RecordId) {
        self.set_state(id, State::Free);
        let address = self.get(id).address;
        self.leaf_mut(address).records[page_in_leaf(address)] = 0;
    }

    /// Frees a detached record, whose slot must be empty.
    pub fn release(&mut self, id: RecordId) {
        self.free.push(id);
    }

    /// Moves a record to another address, at which no page may be tracked.
    pub fn rename(&mut self, id: RecordId, to: usize) {
        let from = self.get(id).address;
        self.leaf_mut(from).records[page_in_leaf(from)] = 0;
        self.leaf_mut(to).records[page_in_leaf(to)] = id;
        self.get_mut(id).address = to;
    }

    /// Changes a record's state. The record leaves the list of the old state and joins the tail of the new state's list.
    pub fn set_state(&mut self, id: RecordId, state: State) {
        match self.get(id).state {
            State::Active => self.unlink(PageList::Active, id),
            State::Inactive => self.unlink(PageList::Inactive, id),
            State::Stuck => self.unlink(PageList::Stuck, id),
            State::Remote => self.remote -= 1,
            State::Fetching => self.fetching -= 1,
            State::Free => {}
        }
        self.get_mut(id).state = state;
        match state {
            State::Active => self.append(PageList::Active, id),
            State::Inactive => self.append(PageList::Inactive, id),
            State::Stuck => self.append(PageList::Stuck, id),
            State::Remote => self.remote += 1,
            State::Fetching => self.fetching += 1,
            State::Free => {}
        }
    }

    /// Makes an active record the next one to be reclaimed.
    pub fn to_front(&mut self, id: RecordId) {
        debug_assert_eq!(self.get(id).state, State::Active);
        self.unlink(PageList::Active, id);
        let head = self.active.head;
        *self.get_mut(id) = PageRecord { prev: 0, next: head, ..*self.get(id) };
        match head {
            0 => self.active.tail = id,
            _ => self.get_mut(head).prev = id,
        }
        self.active.head = id;
        self.active.len += 1;
    }

    /// Returns the oldest record of a list.
    pub fn oldest(&self, queue: PageList) -> Option<RecordId> {
        let id = self.list(queue).head;
        (id != 0).then_some(id)
    }

    /// Returns the record that follows this one in its list.
    pub fn after(&self, id: RecordId) -> Option<RecordId> {
        let next = self.get(id).next;
        (next != 0).then_some(next)
    }

    /// Appends the tracked pages of `[start, end)` to `found`, lowest address first.
    pub fn tracked_in(&self, start: usize, end: usize, found: &mut Vec<RecordId>) {
        self.for_leaves(start, end, |leaf, base| {
            let first = start.saturating_sub(base) / PAGE;
            let last = (end - base).div_ceil(PAGE).min(LEAF_PAGES);
            found.extend(leaf.records[first..last].iter().filter(|id| **id != 0));
        });
    }

    /// Returns whether the page at `address` was registered.
    pub fn is_registered(&self, address: usize) -> bool {
        self.registered.contains(address)
    }

    /// Returns whether all pages of `[start, end)` were registered.
    pub fn is_all_registered(&self, start: usize, end: usize) -> bool {
        self.registered.covers(start, end)
    }

    /// Notes that the pages of `[start, end)` are registered, or are no longer registered.
    pub fn set_registered(&mut self, start: usize, end: usize, registered: bool) {
        match registered {
            true => self.registered.add(start, end),
            false => self.registered.remove(start, end),
        }
    }

    /// Notes that the mapping of `len` bytes at `from` is now at `to`. The same parts of it are registered as before.
    pub fn move_registered(&mut self, from: usize, to: usize, len: usize) {
        let parts = self.registered.parts(from, from + len);
        self.registered.remove(from, from + len);
        self.registered.remove(to, to + len);
        for (start, end) in parts {
            self.registered.add(to + (start - from), to + (end - from));
        }
    }

    /// Notes that the program had contents of `[start, end)` dropped.
    pub fn set_removed(&mut self, start: usize, end: usize) {
        let mut touched = Vec::new();
        self.for_leaves(start, end, |_, base| touched.push(base));
        for base in touched {
            self.leaf_mut(base).removed = true;
        }
    }

    /// Returns the parts of `[start, end)` in which pages may be present that were never reported to the pager: the unregistered memory. If
    /// `all`, also returns registered memory, except where the program had contents dropped.
    pub fn unreported(&self, start: usize, end: usize, all: bool) -> Vec<(usize, usize)> {
        if !all {
            return self.registered.gaps(start, end);
        }
        let mut rest = AddressSet::default();
        rest.add(start, end);
        self.for_leaves(start, end, |leaf, base| {
            if leaf.removed {
                let within = self.registered.parts(base.max(start), (base + LEAF_BYTES).min(end));
                within.into_iter().for_each(|(start, end)| rest.remove(start, end));
            }
        });
        rest.parts(start, end)
    }

    /// Returns all records whose contents are outside the program.
    pub fn away(&self) -> impl Iterator<Item = RecordId> + '_ {
        let records = self.records.iter().flat_map(|chunk| chunk.iter()).enumerate();
        let away = |state| matches!(state, State::Inactive | State::Remote | State::Fetching);
        records.filter(move |(_, record)| away(record.state)).map(|(id, _)| id as RecordId)
    }

    fn list(&self, queue: PageList) -> &RecordList {
        match queue {
            PageList::Active => &self.active,
            PageList::Inactive => &self.inactive,
            PageList::Stuck => &self.stuck,
        }
    }

    fn list_mut(&mut self, queue: PageList) -> &mut RecordList {
        match queue {
            PageList::Active => &mut self.active,
            PageList::Inactive => &mut self.inactive,
            PageList::Stuck => &mut self.stuck,
        }
    }

    fn append(&mut self, queue: PageList, id: RecordId) {
        let tail = self.list(queue).tail;
        *self.get_mut(id) = PageRecord { prev: tail, next: 0, ..*self.get(id) };
        match tail {
            0 => self.list_mut(queue).head = id,
            _ => self.get_mut(tail).next = id,
        }
        let list = self.list_mut(queue);
        list.tail = id;
        list.len += 1;
    }

    fn unlink(&mut self, queue: PageList, id: RecordId) {
        let PageRecord { prev, next, .. } = *self.get(id);
        match prev {
            0 => self.list_mut(queue).head = next,
            _ => self.get_mut(prev).next = next,
        }
        match next {
            0 => self.list_mut(queue).tail = prev,
            _ => self.get_mut(next).prev = prev,
        }
        self.list_mut(queue).len -= 1;
    }

    /// Adds a chunk of records and returns the lowest index; record 0 is never handed out.
    fn grow(&mut self) -> RecordId {
        let first = (self.records.len() * CHUNK) as RecordId;
        self.records.push(vec![FREE; CHUNK].into_boxed_slice());
        self.free.extend((first.max(1)..first + CHUNK as RecordId).rev());
        self.free.pop().expect("a chunk holds more than one record")
    }

    fn leaf(&self, address: usize) -> Option<&Leaf> {
        let (root, mid) = split(address);
        self.root.get(root)?.as_ref()?[mid].as_deref()
    }

    fn leaf_mut(&mut self, address: usize) -> &mut Leaf {
        let (root, mid) = split(address);
        let mids = self.root[root].get_or_insert_with(|| {
            let mut mids = Vec::new();
            mids.resize_with(MID_LEAVES, || None);
            mids
        });
        mids[mid].get_or_insert_with(|| Box::new(Leaf { records: [0; LEAF_PAGES], removed: false }))
    }

    /// Calls `f` with each existing leaf that overlaps `[start, end)`, and with the first address of that leaf.
    fn for_leaves(&self, start: usize, end: usize, mut f: impl FnMut(&Leaf, usize)) {
        let mut base = start / LEAF_BYTES * LEAF_BYTES;
        while base < end {
            let (root, mid) = split(base);
            match self.root.get(root).and_then(Option::as_ref) {
                None => base = (root + 1).saturating_mul(MID_LEAVES * LEAF_BYTES),
                Some(mids) => {
                    if let Some(leaf) = &mids[mid] {
                        f(leaf, base);
                    }
                    base += LEAF_BYTES;
                }
            }
        }
    }
}

fn split(address: usize) -> (usize, usize) {
    (address / LEAF_BYTES / MID_LEAVES, address / LEAF_BYTES % MID_LEAVES)
}

fn page_in_leaf(address: usize) -> usize {
    address / PAGE % LEAF_PAGES
}
