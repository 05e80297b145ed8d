//! Who is next among many: the smallest first, and of equals the lowest number.

use std::collections::BTreeSet;

/// Things with a number and a size, which may change.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    waiting: BTreeSet<(u32, u32)>,
}

/// Where a thing stands in [`Turns`]: kept by its owner, made by `Place::default()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place(Option<u32>);

impl Turns {
    /// Thing `number` now waits with this size, or no more. `place` is that of this thing.
    pub fn set(&mut self, number: u32, place: &mut Place, size: Option<u32>) {
        if place.0 == size {
            return;
        }
        if let Some(old) = place.0 {
            self.waiting.remove(&(old, number));
        }
        if let Some(new) = size {
            self.waiting.insert((new, number));
        }
        place.0 = size;
    }

    /// The next.
    pub fn first(&self) -> Option<u32> {
        self.waiting.first().map(|(_, number)| *number)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|(_, number)| *number)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
