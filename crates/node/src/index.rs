//! Ids and places of a session's pages: a hash table in mapped memory.
//!
//! What the C library frees it may keep, for each thread by itself; a session that once held many pages would hold their index
//! for ever. A mapping goes back to the machine. Open addressing with linear probing; an entry that is removed is filled from
//! behind, so that there are no tombstones.

use memmap2::MmapMut;
use std::hash::{BuildHasher, RandomState};

/// An id and 1 + its place, or zeros.
const SLOT: usize = 8;
/// Slots of the smallest table: a page.
const LEAST: usize = 512;

pub struct Index {
    slots: Option<MmapMut>,
    used: usize,
    /// Keyed: whoever chooses ids cannot choose where they go.
    hasher: RandomState,
}

impl Index {
    pub fn new() -> Index {
        Index { slots: None, used: 0, hasher: RandomState::new() }
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.len())
    }

    pub fn get(&self, id: u32) -> Option<u32> {
        self.find(id).ok().map(|at| self.read(at).1 - 1)
    }

    /// `false`: there is no memory for it, and nothing changed.
    pub fn insert(&mut self, id: u32, place: u32) -> bool {
        if let Ok(at) = self.find(id) {
            self.write(at, id, place + 1);
            return true;
        }
        // Three quarters full at most.
        if (self.used + 1) * 4 > self.capacity() * 3 && !self.resize((self.capacity() * 2).max(LEAST)) {
            return false;
        }
        let at = self.find(id).expect_err("it is not there");
        self.write(at, id, place + 1);
        self.used += 1;
        true
    }

    pub fn remove(&mut self, id: u32) -> Option<u32> {
        let at = self.find(id).ok()?;
        let place = self.read(at).1 - 1;
        self.close_gap(at);
        self.used -= 1;
        // A table that is less than three sixteenths full halves; where that fails, it stays.
        if self.used * 16 < self.capacity() * 3 && self.capacity() > LEAST {
            self.resize(self.capacity() / 2);
        }
        Some(place)
    }

    fn capacity(&self) -> usize {
        self.bytes() / SLOT
    }

    fn home(&self, id: u32) -> usize {
        self.hasher.hash_one(id) as usize & (self.capacity() - 1)
    }

    /// Where an id is, or the empty slot where it would be.
    fn find(&self, id: u32) -> Result<usize, usize> {
        if self.capacity() == 0 {
            return Err(0);
        }
        let mut at = self.home(id);
        loop {
            match self.read(at) {
                (_, 0) => return Err(at),
                (other, _) if other == id => return Ok(at),
                _ => at = (at + 1) & (self.capacity() - 1),
            }
        }
    }

    /// Empties a slot, and moves those behind it that would not be found any more.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.capacity() - 1;
        let mut at = (gap + 1) & mask;
        while let (id, place @ 1..) = self.read(at) {
            // It may move if its home is not between the gap and itself.
            if at.wrapping_sub(self.home(id)) & mask >= at.wrapping_sub(gap) & mask {
                self.write(gap, id, place);
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.write(gap, 0, 0);
    }

    fn resize(&mut self, capacity: usize) -> bool {
        let Ok(fresh) = MmapMut::map_anon(capacity * SLOT) else { return false };
        let entries = self.capacity();
        let old = self.slots.replace(fresh);
        for at in 0..entries {
            let (id, place) = entry(old.as_ref().expect("it has entries"), at);
            if place > 0 {
                let to = self.find(id).expect_err("each id is there once");
                self.write(to, id, place);
            }
        }
        true
    }

    fn read(&self, at: usize) -> (u32, u32) {
        entry(self.slots.as_ref().expect("there is a table"), at)
    }

    fn write(&mut self, at: usize, id: u32, place: u32) {
        let slots = self.slots.as_mut().expect("there is a table");
        let (first, second) = slots[at * SLOT..][..SLOT].split_at_mut(4);
        first.copy_from_slice(&id.to_le_bytes());
        second.copy_from_slice(&place.to_le_bytes());
    }
}

fn entry(slots: &MmapMut, at: usize) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(slots[at..at + 4].try_into().expect("four bytes"));
    (word(at * SLOT), word(at * SLOT + 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Beside a table that is known to be right.
        #[test]
        fn what_is_put_in_is_found(steps in prop::collection::vec((any::<bool>(), 0u32..3000, 0u32..1 << 26), 1..6000)) {
            let (mut index, mut model) = (Index::new(), HashMap::new());
            for (insert, id, place) in steps {
                match insert {
                    true => {
                        prop_assert!(index.insert(id, place));
                        model.insert(id, place);
                    }
                    false => prop_assert_eq!(index.remove(id), model.remove(&id)),
                }
                prop_assert_eq!(index.get(id), model.get(&id).copied());
                prop_assert!(index.bytes() <= (model.len() * 16 / 3 * SLOT).max(LEAST * SLOT) + LEAST * SLOT);
            }
            prop_assert!(model.iter().all(|(id, place)| index.get(*id) == Some(*place)));
        }
    }
}
