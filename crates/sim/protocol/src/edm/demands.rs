//! Demand notification queues of EDM's scheduler (§3.1.2): one first-in-first-out queue of demands for each pair of
//! source and destination.
//!
//! The hardware keeps one ordered list of demands per destination. The scheduler may grant only the first demand of a
//! pair, because the messages of a pair are delivered in order (§3.1.1 (5)). Here the list of a destination is
//! therefore the set of the first demands of its pairs, each with its priority. Delivery in order can be turned off, so
//! that its cost can be measured. In that case, and with the policy `Srpt`, the queue of a pair is ordered by the bytes
//! that are left of each message.

use super::scheduler::Demand;
use unrack_units::Time;

/// The scheduler's record of the demand of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub token: u32,
    pub remaining: u64,
    /// Position of the demand in the order in which demands arrived at the scheduler.
    pub order: u32,
    pub started: bool,
    /// Time that the first grant of the message takes on a link. If a request serves as the first grant, time that the
    /// request takes on a link.
    pub first_grant: Time,
    next: u32,
}

/// Queue of the demands of one pair of source and destination.
#[derive(Debug, Clone, Copy)]
struct PairQueue {
    head: u32,
    tail: u32,
    /// Priority of the first demand of the queue. The high 32 bits are its class: the number of bytes left, or
    /// [`LONG`]. The low 32 bits are its position in the order of arrival. The smallest key has the highest priority.
    key: u64,
}

/// Class of a demand with more bytes left than fit into the 32 bits of a class. Its exact priority is read from its
/// entry when it is needed. The key of a queue has only 64 bits because there is one queue for each pair of ports.
const LONG: u32 = u32::MAX;

/// Priority of a demand: first the number of bytes left, or 0 if the policy ignores it, and then the order of arrival.
/// The smallest key has the highest priority.
pub(super) type Key = (u64, u32);

/// Position at which a demand entered the queue of its pair: as the only demand, at the head, or behind the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuePosition {
    Alone,
    First,
    Behind,
}

/// Demand queues of all pairs of ports of a switch.
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

    /// Adds a demand to the queue of its pair: at the end or, if `overtakes`, before the first demand that has more
    /// bytes left. Returns the position at which the demand entered the queue.
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

    /// Returns the two entries between which a demand of `bytes` belongs in the queue `slot`: the last one of the
    /// leading entries with at most `bytes` left, and the entry behind it.
    fn around(&self, slot: usize, bytes: u64) -> (u32, u32) {
        let (mut before, mut after) = (NONE, self.pairs[slot].head);
        while after != NONE && self.entries[after as usize].remaining <= bytes {
            (before, after) = (after, self.entries[after as usize].next);
        }
        (before, after)
    }

    /// Returns the first demand of a pair. The queue of the pair must not be empty.
    pub(super) fn head(&mut self, src: u32, dst: u32) -> &mut Entry {
        let slot = self.slot(src, dst);
        &mut self.entries[self.pairs[slot].head as usize]
    }

    /// Removes the first demand of a pair. Returns whether the pair has another demand.
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

    /// Returns the priority of the first demand of a pair. The smallest key has the highest priority.
    pub(super) fn key(&self, src: u32, dst: u32) -> Key {
        let pair = &self.pairs[self.slot(src, dst)];
        let (class, order) = ((pair.key >> 32) as u32, pair.key as u32);
        let bytes = if class == LONG { self.entries[pair.head as usize].remaining } else { class.into() };
        (bytes, order)
    }

    /// Updates the priority of the first demand of a pair. The priority is the number of bytes left, if `bytes_count`,
    /// and then the order of arrival.
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
