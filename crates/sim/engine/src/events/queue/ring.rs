//! Events of the near days: a ring of linked lists in one arena.

/// Events of the days after today. Each day is a stack, so that a push costs the same few stores however many events
/// there are.
pub(super) struct Ring<E> {
    /// Index of the last pushed event of each day. The number of days is a power of two.
    days: Vec<u32>,
    /// One bit per day, set if the day has events.
    occupied: Vec<u64>,
    nodes: Vec<Node<E>>,
    unused: u32,
    len: usize,
}

struct Node<E> {
    key: u64,
    event: E,
    next: u32,
}

const NONE: u32 = u32::MAX;
const FEWEST_DAYS: usize = 1 << 10;
const MOST_DAYS: usize = 1 << 18;

impl<E: Copy> Ring<E> {
    /// Creates an empty ring with about as many days as the expected number of events.
    pub(super) fn new(events: usize) -> Ring<E> {
        let days = days_for(events);
        Ring { days: vec![NONE; days], occupied: vec![0; days / 64], nodes: Vec::new(), unused: NONE, len: 0 }
    }

    /// Returns the number of events in the ring.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the number of days suits this number of events.
    pub(super) fn fits(&self, events: usize) -> bool {
        let wanted = days_for(events);
        wanted <= 2 * self.days.len() && self.days.len() <= 8 * wanted
    }

    /// Returns whether the ring has a place for the day that is `ahead` days after today.
    #[inline]
    pub(super) fn reaches(&self, ahead: u64) -> bool {
        ahead < self.days.len() as u64
    }

    /// Adds an event to a day that the ring reaches.
    #[inline]
    pub(super) fn push(&mut self, day: u64, key: u64, event: E) {
        let at = self.place(day);
        let next = self.days[at];
        self.days[at] = self.store(Node { key, event, next });
        self.occupied[at / 64] |= 1 << (at % 64);
        self.len += 1;
    }

    /// Moves the events of a day to the end of `out`, last pushed first.
    pub(super) fn take(&mut self, day: u64, out: &mut Vec<(u64, E)>) {
        let at = self.place(day);
        let mut index = std::mem::replace(&mut self.days[at], NONE);
        self.occupied[at / 64] &= !(1 << (at % 64));
        while index != NONE {
            let node = &mut self.nodes[index as usize];
            out.push((node.key, node.event));
            let next = std::mem::replace(&mut node.next, self.unused);
            self.unused = index;
            index = next;
            self.len -= 1;
        }
    }

    /// Returns the first day from `today` on that has events.
    pub(super) fn next_day(&self, today: u64) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let start = self.place(today);
        let mut word = start / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
        while bits == 0 {
            word = (word + 1) % self.occupied.len();
            bits = self.occupied[word];
        }
        let at = word * 64 + bits.trailing_zeros() as usize;
        Some(today + self.place((at + self.days.len() - start) as u64) as u64)
    }

    fn place(&self, day: u64) -> usize {
        day as usize & (self.days.len() - 1)
    }

    fn store(&mut self, node: Node<E>) -> u32 {
        if self.unused == NONE {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let index = self.unused;
        self.unused = self.nodes[index as usize].next;
        self.nodes[index as usize] = node;
        index
    }
}

fn days_for(events: usize) -> usize {
    events.next_power_of_two().clamp(FEWEST_DAYS, MOST_DAYS)
}
