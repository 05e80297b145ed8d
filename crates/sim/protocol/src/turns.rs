//! Priority queue of numbered items, such as transfers. The item with the smallest size comes first; of several items with this size, the
//! oldest comes first.

use std::collections::BTreeSet;

/// Priority queue of items. Each item has a number, and a size that may change.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// Entries as (size, order, number).
    waiting: BTreeSet<(u32, u32, u32)>,
}

/// Position of an item in a [`Turns`] queue. The owner of the item stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnIndex {
    order: u32,
    size: Option<u32>,
}

impl TurnIndex {
    /// Creates the position of an item that is not in the queue yet. Items of equal size are ordered by `order`, the order of their
    /// arrival, and not by their numbers, because numbers are reused.
    pub fn new(order: u32) -> TurnIndex {
        TurnIndex { order, size: None }
    }
}

impl Turns {
    /// Inserts item `number` with this size, changes the item's size, or removes the item if `size` is `None`. Returns whether the queue
    /// changed. `place` must be the position of this item.
    pub fn set(&mut self, number: u32, place: &mut TurnIndex, size: Option<u32>) -> bool {
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

    /// Returns the first item.
    pub fn first(&self) -> Option<u32> {
        self.waiting.first().map(|(.., number)| *number)
    }

    /// Returns all items, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|(.., number)| *number)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equals_who_came_first_is_next_whatever_their_numbers() {
        let (mut turns, mut early, mut late) = (Turns::default(), TurnIndex::new(7), TurnIndex::new(8));
        turns.set(0, &mut late, Some(1));
        turns.set(1, &mut early, Some(1));
        assert_eq!(turns.iter().collect::<Vec<_>>(), [1, 0]);
        turns.set(1, &mut early, Some(2));
        assert_eq!(turns.first(), Some(0));
        turns.set(0, &mut late, None);
        assert_eq!((turns.first(), turns.len()), (Some(1), 1));
    }
}
