//! Who is next among many: the smallest first, and of equals the lowest name.

use std::collections::BTreeSet;

/// Things with a number and a size, which may change.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// Size, order, number.
    waiting: BTreeSet<(u32, u32, u32)>,
}

/// Where a thing stands in [`Turns`]: kept by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    order: u32,
    size: Option<u32>,
}

impl Place {
    /// Of the thing that came as number `order`. Its own number may have been another's: it says nothing of that.
    pub fn new(order: u32) -> Place {
        Place { order, size: None }
    }
}

impl Turns {
    /// Thing `number` now waits with this size, or no more; returns whether that is new. `place` is that of this
    /// thing.
    pub fn set(&mut self, number: u32, place: &mut Place, size: Option<u32>) -> bool {
        if place.size == size {
            return false;
        }
        if let Some(old) = place.size {
            self.waiting.remove(&(old, place.order, number));
        }
        if let Some(new) = size {
            self.waiting.insert((new, place.order, number));
        }
        place.size = size;
        true
    }

    /// The next.
    pub fn first(&self) -> Option<u32> {
        self.waiting.first().map(|(.., number)| *number)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|(.., number)| *number)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equals_who_came_first_is_next_whatever_their_numbers() {
        let (mut turns, mut early, mut late) = (Turns::default(), Place::new(7), Place::new(8));
        turns.set(0, &mut late, Some(1));
        turns.set(1, &mut early, Some(1));
        assert_eq!(turns.iter().collect::<Vec<_>>(), [1, 0]);
        turns.set(1, &mut early, Some(2));
        assert_eq!(turns.first(), Some(0));
        turns.set(0, &mut late, None);
        assert_eq!((turns.first(), turns.len()), (Some(1), 1));
    }
}
