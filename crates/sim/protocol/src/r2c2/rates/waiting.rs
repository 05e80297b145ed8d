//! Priority queue of the links that are not full yet. They are ordered by a lower bound of the water level at which they become full.
//!
//! The level at which a link becomes full only rises while rates are settled, and the queue re-examines most links before they reach its
//! head. Therefore links are kept in piles by the leading bits of their levels. Insertion into a pile takes constant time, and only the
//! pile with the lowest levels is sorted.

use super::WaterLevel;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

#[derive(Debug, Clone)]
pub(super) struct WaitingChanges {
    /// For each pile, its first link. The next field has, for each link, the next link in the same pile.
    piles: Vec<u32>,
    next: Vec<u32>,
    /// Sorted links of the current pile, each as one word that contains level and link. All earlier piles are empty.
    present: BinaryHeap<Reverse<u64>>,
    pile: usize,
}

const NONE: u32 = u32::MAX;
/// Number of bits of a water level, after its highest set bit, that select the pile of a link with this level.
const BITS: u32 = 5;
const PILES: usize = (33 - BITS as usize) << BITS;

fn pile_of(level: WaterLevel) -> usize {
    let bits = 32 - level.0.leading_zeros();
    let shift = bits.saturating_sub(BITS + 1);
    ((shift << BITS) + (level.0 >> shift)) as usize
}

impl WaitingChanges {
    /// Creates an empty queue for `links` links.
    pub(super) fn new(links: usize) -> WaitingChanges {
        WaitingChanges {
            piles: vec![NONE; PILES],
            next: vec![NONE; links],
            present: BinaryHeap::new(),
            pile: 0,
        }
    }

    /// Adds a link that is not in the queue.
    pub(super) fn push(&mut self, level: WaterLevel, link: u32) {
        match pile_of(level) {
            pile if pile > self.pile => self.put(pile, link),
            _ => self.present.push(word(level, link)),
        }
    }

    fn put(&mut self, pile: usize, link: u32) {
        self.next[link as usize] = std::mem::replace(&mut self.piles[pile], link);
    }

    /// Returns the link that becomes full at the lowest level, and this level. Of several links with the same level, it returns the one
    /// with the lowest number. The link stays in the queue. `level` returns the level at which a link will become full according to the
    /// current loads, or `None` if the link never will. The level of a link must not be lower than in an earlier call.
    pub(super) fn first(&mut self, level: impl Fn(u32) -> Option<WaterLevel>) -> Option<(WaterLevel, u32)> {
        loop {
            let Some(mut top) = self.present.peek_mut() else {
                self.turn_to_next_pile(&level)?;
                continue;
            };
            let link = top.0 as u32;
            let Some(now) = level(link) else {
                PeekMut::pop(top);
                continue;
            };
            let pile = pile_of(now);
            if pile > self.pile {
                PeekMut::pop(top);
                self.put(pile, link);
            } else if word(now, link) == *top {
                return Some((now, link));
            } else {
                *top = word(now, link);
            }
        }
    }

    /// Removes the link that [`WaitingChanges::first`] returned.
    pub(super) fn drop_first(&mut self) {
        self.present.pop();
    }

    fn turn_to_next_pile(&mut self, level: &impl Fn(u32) -> Option<WaterLevel>) -> Option<()> {
        let ahead = self.piles[self.pile..].iter().position(|first| *first != NONE);
        self.pile = ahead.map_or(PILES - 1, |ahead| self.pile + ahead);
        let mut link = std::mem::replace(&mut self.piles[self.pile], NONE);
        ahead?;
        while link != NONE {
            let next = self.next[link as usize];
            if let Some(level) = level(link) {
                self.push(level, link);
            }
            link = next;
        }
        Some(())
    }

    /// Removes all links.
    pub(super) fn clear(&mut self) {
        self.piles.fill(NONE);
        self.present.clear();
        self.pile = 0;
    }
}

fn word(level: WaterLevel, link: u32) -> Reverse<u64> {
    Reverse(u64::from(level.0) << 32 | u64::from(link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piles_are_in_the_order_of_levels() {
        let levels = (0..70).chain((6..32).flat_map(|bit| {
            let power = 1u32 << bit;
            [power - 1, power, power + (power >> 5), power + (power >> 1), power + (power - 1)]
        }));
        let mut levels: Vec<u32> = levels.collect();
        levels.sort_unstable();
        let piles: Vec<usize> = levels.iter().map(|level| pile_of(WaterLevel(*level))).collect();
        assert!(piles.is_sorted());
        assert_eq!((piles[0], pile_of(WaterLevel(u32::MAX))), (0, PILES - 1));
    }

    #[test]
    fn links_come_in_the_order_of_what_their_levels_are_by_then() {
        let links = 200;
        let mut waiting = WaitingChanges::new(links as usize);
        for round in 0..3 {
            let first = |link: u32| WaterLevel(link * 7_919 % 1_009 * 1_000 + round);
            (0..links).for_each(|link| waiting.push(first(link), link));
            // Every third link will never be full, and every second one fills at a later level than its first.
            let now =
                |link: u32| (!link.is_multiple_of(3)).then(|| WaterLevel(first(link).0 + link % 2 * 300_000));
            let mut expected: Vec<(WaterLevel, u32)> =
                (0..links).filter_map(|link| Some((now(link)?, link))).collect();
            expected.sort_unstable();
            let gone = std::cell::RefCell::new(vec![false; links as usize]);
            let got: Vec<(WaterLevel, u32)> = std::iter::from_fn(|| {
                let first = waiting.first(|link| now(link).filter(|_| !gone.borrow()[link as usize]))?;
                gone.borrow_mut()[first.1 as usize] = true;
                Some(first)
            })
            .collect();
            assert_eq!(got, expected);
            waiting.clear();
        }
    }
}
