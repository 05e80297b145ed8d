//! Hash table from page ids to places in the blocks of a session, in mapped memory.
//!
//! The table uses mapped memory because unmapping returns memory to the system at once. The C library may instead keep freed memory per
//! thread, so a session that once stored many pages would keep the memory of their index. The table uses open addressing with linear
//! probing. When an entry is removed, the entries behind it move up, so there are no tombstones.

use memmap2::MmapMut;
use std::hash::{BuildHasher, RandomState};

/// Bytes of a slot: an id and the place plus 1; both are zero in an empty slot.
const SLOT: usize = 8;
/// Number of slots of the smallest table, which fills one page of memory.
const LEAST: usize = 512;

/// Map from page ids to places.
pub(crate) struct PageIndex {
    slots: Option<MmapMut>,
    /// Number of used slots.
    used: usize,
    /// Keyed hash, so that a client that chooses its page ids cannot choose their slots.
    hasher: RandomState,
}

impl PageIndex {
    /// Makes an empty table, which occupies no memory.
    pub(crate) fn new() -> PageIndex {
        PageIndex { slots: None, used: 0, hasher: RandomState::new() }
    }

    /// Returns the table's size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.len())
    }

    /// Returns the place of a page.
    pub(crate) fn get(&self, id: u32) -> Option<u32> {
        self.find(id).ok().map(|at| self.read(at).1 - 1)
    }

    /// Sets the place of a page. Returns false, and changes nothing, if memory is lacking.
    pub(crate) fn insert(&mut self, id: u32, place: u32) -> bool {
        if let Ok(at) = self.find(id) {
            self.write(at, id, place + 1);
            return true;
        }
        // The table is kept at most three quarters full.
        if (self.used + 1) * 4 > self.capacity() * 3 && !self.resize((self.capacity() * 2).max(LEAST)) {
            return false;
        }
        let at = self.find(id).expect_err("it is not there");
        self.write(at, id, place + 1);
        self.used += 1;
        true
    }

    /// Removes a page, and returns its place.
    pub(crate) fn remove(&mut self, id: u32) -> Option<u32> {
        let at = self.find(id).ok()?;
        let place = self.read(at).1 - 1;
        self.close_gap(at);
        self.used -= 1;
        // A table that is less than three sixteenths full is halved. If that fails, it keeps its size.
        if self.used * 16 < self.capacity() * 3 && self.capacity() > LEAST {
            self.resize(self.capacity() / 2);
        }
        Some(place)
    }

    /// Returns the number of slots.
    fn capacity(&self) -> usize {
        self.bytes() / SLOT
    }

    /// Returns the slot at which the search for an id starts.
    fn home(&self, id: u32) -> usize {
        self.hasher.hash_one(id) as usize & (self.capacity() - 1)
    }

    /// Returns the slot of an id, or as an error the empty slot in which the id would be stored.
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

    /// Empties a slot, and moves up those entries behind it that the search could no longer find.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.capacity() - 1;
        let mut at = (gap + 1) & mask;
        while let (id, place @ 1..) = self.read(at) {
            // An entry may move if its home slot is not between the gap and the entry.
            if at.wrapping_sub(self.home(id)) & mask >= at.wrapping_sub(gap) & mask {
                self.write(gap, id, place);
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.write(gap, 0, 0);
    }

    /// Moves all entries to a new table of `capacity` slots. Returns false if memory is lacking.
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
        /// Compares the table with a `HashMap` after each step.
        #[test]
        fn what_is_put_in_is_found(steps in prop::collection::vec((any::<bool>(), 0u32..3000, 0u32..1 << 26), 1..6000)) {
            let (mut index, mut model) = (PageIndex::new(), HashMap::new());
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
