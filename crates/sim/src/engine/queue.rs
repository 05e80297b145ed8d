//! The event queue: a radix heap over picoseconds.
//!
//! Keys never go below the last one popped, so an entry's bucket is the highest bit in which its
//! key differs from that one. A pop empties the lowest bucket into lower ones; each entry moves
//! down at most 64 times, and in practice as often as its delay has bits. Entries of equal keys
//! always share a bucket and keep their order there, so ties break by insertion with no sequence
//! number.

use unrack_units::Time;

/// Holds events until their time; gives them back in order of (time, insertion).
pub struct EventQueue<E> {
    last: u64,
    buckets: [Vec<(u64, E)>; 65],
    occupied: u64,
    /// Bucket 0 (key = `last`), read from the front.
    read: usize,
    len: usize,
}

impl<E: Copy> EventQueue<E> {
    pub fn new() -> Self {
        EventQueue { last: 0, buckets: [const { Vec::new() }; 65], occupied: 0, read: 0, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `at` must not be before the last popped time.
    pub fn push(&mut self, at: Time, event: E) {
        let key = at.as_ps();
        debug_assert!(key >= self.last, "time goes forward");
        self.len += 1;
        self.place(key, event);
    }

    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.read == self.buckets[0].len() {
            self.refill()?;
        }
        let (key, event) = self.buckets[0][self.read];
        self.read += 1;
        self.len -= 1;
        Some((Time::from_ps(key), event))
    }

    fn place(&mut self, key: u64, event: E) {
        let bucket = 64 - (key ^ self.last).leading_zeros() as usize;
        self.buckets[bucket].push((key, event));
        if bucket > 0 {
            self.occupied |= 1 << (bucket - 1);
        }
    }

    /// Moves `last` to the least key and spreads the bucket that holds it over lower ones.
    fn refill(&mut self) -> Option<()> {
        self.buckets[0].clear();
        self.read = 0;
        if self.occupied == 0 {
            return None;
        }
        let lowest = self.occupied.trailing_zeros() as usize + 1;
        self.occupied &= self.occupied - 1;
        let mut moved = std::mem::take(&mut self.buckets[lowest]);
        self.last = moved.iter().map(|(key, _)| *key).min().expect("an occupied bucket is not empty");
        for (key, event) in moved.drain(..) {
            self.place(key, event);
        }
        self.buckets[lowest] = moved; // keeps its allocation
        Some(())
    }
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}
