//! Demand notification queues (§3.1.2): one first-in-first-out queue for each source-destination pair.
//!
//! The hardware keeps one ordered list per destination. Only the first demand of a pair may be granted, because
//! messages of a pair are delivered in order (§3.1.1 (5)). The list of a destination is therefore the set of the heads
//! of its pairs, each with its priority. This order can be turned off, in order to measure its cost; the queue of a
//! pair is then ordered by the bytes left.

use super::scheduler::Demand;
use unrack_units::Time;

/// Scheduler's record of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub token: u32,
    pub remaining: u64,
    /// Position in the order of arrival at the scheduler.
    pub order: u32,
    pub started: bool,
    /// Time that its first grant takes on a link, or the request that serves as its first grant.
    pub first_grant: Time,
    next: u32,
}

/// Queue of one pair.
#[derive(Debug, Clone, Copy)]
struct PairQueue {
    head: u32,
    tail: u32,
    /// Priority of the head: its class in the high bits, its order of arrival in the low bits; the smallest goes
    /// first. The class is the number of bytes left, or [`LONG`].
    key: u64,
}

/// Class of heads with more bytes left than a class can express; their exact priority is computed on demand. The key
/// is this small because there is one for each pair of ports.
const LONG: u32 = u32::MAX;

/// Priority of a demand: the bytes left, or 0 if they do not count, and then the order of arrival.
pub(super) type Key = (u64, u32);

/// Position at which a demand entered its pair's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuePosition {
    Alone,
    First,
    Behind,
}

/// Demand queues of a switch.
#[derive(Debug, Clone)]
pub(super) struct Demands {
    ports: usize,
    pairs: Vec<PairQueue>,
    entries: Vec<Entry>,
    unused: u32,
    arrived: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: PairQueue = PairQueue { head: NONE, tail: NONE, key: 0 };

impl Demands {
    /// Creates empty queues for all pairs of `ports` ports.
    pub(super) fn new(ports: usize) -> Demands {
        Demands { ports, pairs: vec![EMPTY; ports * ports], entries: Vec::new(), unused: NONE, arrived: 0 }
    }

    /// Adds a demand to its pair's queue: at the end or, if `overtakes`, ahead of the demands with more bytes left.
    pub(super) fn push(&mut self, demand: &Demand, first_grant: Time, overtakes: bool) -> QueuePosition {
        let Demand { src, dst, bytes, token, .. } = *demand;
        let order = self.arrived;
        self.arrived = self.arrived.wrapping_add(1);
        let entry = Entry { token, remaining: bytes, order, started: false, first_grant, next: NONE };
        let index = self.store(entry);
        let slot = self.slot(src, dst);
        let (before, after) = match overtakes {
            true => self.around(slot, bytes),
            false => (self.pairs[slot].tail, NONE),
        };
        self.entries[index as usize].next = after;
        if after == NONE {
            self.pairs[slot].tail = index;
        }
        match before {
            NONE => self.pairs[slot].head = index,
            before => self.entries[before as usize].next = index,
        }
        match (before, after) {
            (NONE, NONE) => QueuePosition::Alone,
            (NONE, _) => QueuePosition::First,
            _ => QueuePosition::Behind,
        }
    }

    /// Returns the last entry of a pair that has at most `bytes` left, and the entry behind it.
    fn around(&self, slot: usize, bytes: u64) -> (u32, u32) {
        let (mut before, mut after) = (NONE, self.pairs[slot].head);
        while after != NONE && self.entries[after as usize].remaining <= bytes {
            (before, after) = (after, self.entries[after as usize].next);
        }
        (before, after)
    }

    /// Returns the head of a pair. The pair must have one.
    pub(super) fn head(&mut self, src: u32, dst: u32) -> &mut Entry {
        let slot = self.slot(src, dst);
        &mut self.entries[self.pairs[slot].head as usize]
    }

    /// Removes the head. Returns whether another demand follows.
    pub(super) fn pop(&mut self, src: u32, dst: u32) -> bool {
        let slot = self.slot(src, dst);
        let head = self.pairs[slot].head;
        let next = self.entries[head as usize].next;
        self.entries[head as usize].next = self.unused;
        self.unused = head;
        self.pairs[slot].head = next;
        if next == NONE {
            self.pairs[slot].tail = NONE;
        }
        next != NONE
    }

    /// Returns the priority of a pair's head (smaller goes first).
    pub(super) fn key(&self, src: u32, dst: u32) -> Key {
        let pair = &self.pairs[self.slot(src, dst)];
        let (class, order) = ((pair.key >> 32) as u32, pair.key as u32);
        let bytes = if class == LONG { self.entries[pair.head as usize].remaining } else { class.into() };
        (bytes, order)
    }

    /// Sets the priority of a pair's head: its bytes left, if `bytes_count`, and then its order of arrival.
    pub(super) fn rank(&mut self, src: u32, dst: u32, bytes_count: bool) {
        let Entry { remaining, order, .. } = *self.head(src, dst);
        let class = if bytes_count { u32::try_from(remaining).unwrap_or(LONG) } else { 0 };
        let slot = self.slot(src, dst);
        self.pairs[slot].key = u64::from(class) << 32 | u64::from(order);
    }

    fn store(&mut self, entry: Entry) -> u32 {
        if self.unused == NONE {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let index = self.unused;
        self.unused = self.entries[index as usize].next;
        self.entries[index as usize] = entry;
        index
    }

    fn slot(&self, src: u32, dst: u32) -> usize {
        dst as usize * self.ports + src as usize
    }
}
