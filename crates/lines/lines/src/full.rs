//! Fully associative set of page numbers in true LRU order, for TLBs that consist of a single set.
//!
//! The run time of an access does not depend on the capacity of the set. A doubly linked list orders the slots from the
//! most to the least recently used number, and an open-addressing hash table with linear probing finds the slot of a
//! number.

/// Index that marks the absence of a slot.
const NONE: u16 = u16::MAX;

/// Set of at most 16384 numbers in LRU order.
#[derive(Clone, Debug)]
pub(crate) struct LruSet {
    slots: Vec<Slot>,
    /// Number of slots in use.
    used: usize,
    newest: u16,
    oldest: u16,
    table: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    newer: u16,
    older: u16,
}

impl LruSet {
    /// Creates an empty set with room for `capacity` numbers, 1 to 16384.
    pub(crate) fn new(capacity: u32) -> LruSet {
        assert!((1..=1 << 14).contains(&capacity), "sizes of TLBs are checked");
        let slot = Slot { number: 0, newer: NONE, older: NONE };
        let table = vec![NONE; (4 * capacity as usize).next_power_of_two()];
        LruSet { slots: vec![slot; capacity as usize], used: 0, newest: NONE, oldest: NONE, table }
    }

    /// Makes a number the most recently used number, and returns whether the set already contained it. A missing number
    /// is inserted. If the set is full, this insertion evicts the least recently used number.
    #[inline]
    pub(crate) fn touch(&mut self, number: u64) -> bool {
        if let Some(place) = self.place(number) {
            let slot = self.table[place];
            if slot != self.newest {
                self.unlink(slot);
                self.link(slot);
            }
            return true;
        }
        let slot = match self.used < self.slots.len() {
            true => {
                self.used += 1;
                self.used as u16 - 1
            }
            false => self.evict(),
        };
        self.slots[slot as usize].number = number;
        self.link(slot);
        self.enter(slot);
        false
    }

    fn mask(&self) -> usize {
        self.table.len() - 1
    }

    /// Returns the table position at which the search for a number begins (Knuth, The Art of Computer Programming,
    /// volume 3, 6.4: multiplicative hashing by the golden ratio).
    fn home(&self, number: u64) -> usize {
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.mask()
    }

    #[inline]
    fn place(&self, number: u64) -> Option<usize> {
        let mut place = self.home(number);
        loop {
            match self.table[place] {
                NONE => return None,
                slot if self.slots[slot as usize].number == number => return Some(place),
                _ => place = (place + 1) & self.mask(),
            }
        }
    }

    fn enter(&mut self, slot: u16) {
        let mut place = self.home(self.slots[slot as usize].number);
        while self.table[place] != NONE {
            place = (place + 1) & self.mask();
        }
        self.table[place] = slot;
    }

    /// Evicts the least recently used number and returns its slot.
    fn evict(&mut self) -> u16 {
        let slot = self.oldest;
        let mut hole = self.place(self.slots[slot as usize].number).expect("a number has its place");
        self.unlink(slot);
        // Knuth, 6.4, algorithm R: an entry after the hole moves into the hole, unless the home position of this entry
        // lies between the hole and the entry.
        let mut place = hole;
        loop {
            self.table[hole] = NONE;
            loop {
                place = (place + 1) & self.mask();
                let other = self.table[place];
                if other == NONE {
                    return slot;
                }
                let home = self.home(self.slots[other as usize].number);
                let distance = |from: usize| place.wrapping_sub(from) & self.mask();
                if distance(home) >= distance(hole) {
                    self.table[hole] = other;
                    break;
                }
            }
            hole = place;
        }
    }

    fn unlink(&mut self, slot: u16) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link(&mut self, slot: u16) {
        let before = std::mem::replace(&mut self.newest, slot);
        (self.slots[slot as usize].newer, self.slots[slot as usize].older) = (NONE, before);
        match before {
            NONE => self.oldest = slot,
            before => self.slots[before as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the set with a plain list, for numbers that collide in the table and numbers that do not.
        #[test]
        fn a_set_is_a_list(
            capacity in 1u32..20,
            spread in prop::sample::select(vec![1u64, 1 << 9, 1 << 24, 1 << 40]),
            numbers in prop::collection::vec(0u64..40, 0..400),
        ) {
            let mut full = LruSet::new(capacity);
            let mut list = Vec::new();
            for number in numbers {
                let number = number * spread;
                let found = list.iter().position(|other| *other == number);
                prop_assert_eq!(full.touch(number), found.is_some());
                if let Some(found) = found {
                    list.remove(found);
                }
                list.insert(0, number);
                list.truncate(capacity as usize);
            }
        }
    }
}
