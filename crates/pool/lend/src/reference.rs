//! References: the numbers by which a peer receives lent buffers, and the record of those that were received.
//!
//! A reference has 64 bits: the position of the buffer in lines, and above it the number of the loan. Each link numbers
//! its loans consecutively, separately for each direction, from a first number that depends on the channel. Therefore a
//! receiver can refuse a reference that it has received before, even if the same buffer was lent again, and a reference
//! of another link. Because numbers repeat after [`NUMBERS`] loans, a receiver accepts a reference only until half as
//! many further loans were received, and refuses it after that.

use std::collections::BTreeMap;
use unrack_pool::wire::ChannelId;

/// Number of bits of the offset within a line of 64 bytes. A reference omits them, because buffers are aligned to
/// lines.
const LINE_BITS: u32 = 6;
/// Number of bits of a position in lines. Pools are mapped, so an offset needs at most the 47 bits of an address.
const PLACE_BITS: u32 = 47 - LINE_BITS;
/// Number of loans of a link after which their numbers repeat.
const NUMBERS: u64 = 1 << (u64::BITS - PLACE_BITS);
/// Limit on the number of loans by which a reference may be ahead of those that were received.
const MOST_AHEAD: u64 = NUMBERS / 8;

/// Numbers of the loans of a link in one direction.
#[derive(Debug)]
pub(crate) struct LoanNumbers {
    next: u64,
    /// Numbers below `next` that were not received: the end of each range, by the first number of the range.
    left: BTreeMap<u64, u64>,
}

impl LoanNumbers {
    /// Returns the numbers of a channel. The two sides of the channel start with the same numbers.
    pub(crate) fn of(channel: ChannelId) -> LoanNumbers {
        // The multiplication makes consecutive channels begin far from each other.
        let first = channel.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> PLACE_BITS;
        LoanNumbers { next: NUMBERS + first, left: BTreeMap::new() }
    }

    /// Returns the reference of a new loan of the buffer at this offset.
    pub(crate) fn lend(&mut self, offset: u64) -> u64 {
        assert!(offset >> (PLACE_BITS + LINE_BITS) == 0, "{offset:#x} is no address");
        let number = self.next % NUMBERS;
        self.next += 1;
        number << PLACE_BITS | offset >> LINE_BITS
    }

    /// Records that the loan of a reference is received. Returns whether it is the first time and the reference is
    /// valid.
    pub(crate) fn receive(&mut self, reference: u64) -> bool {
        let Some(number) = self.find(reference) else { return false };
        match self.left.range(..=number).next_back().map(|(first, end)| (*first, *end)) {
            Some((first, end)) if number < self.next => {
                self.left.remove(&first);
                self.leave(first, number);
                self.leave(number + 1, end);
            }
            _ => {
                self.leave(self.next, number);
                self.next = number + 1;
            }
        }
        true
    }

    /// Returns whether the reference is valid and its loan was not received yet.
    pub(crate) fn is_new(&self, reference: u64) -> bool {
        self.find(reference).is_some()
    }

    fn find(&self, reference: u64) -> Option<u64> {
        let ahead = (reference >> PLACE_BITS).wrapping_sub(self.next) % NUMBERS;
        if ahead < MOST_AHEAD {
            return Some(self.next + ahead);
        }
        let number = (self.next + ahead).checked_sub(NUMBERS).filter(|_| ahead >= NUMBERS / 2)?;
        let (_, end) = self.left.range(..=number).next_back()?;
        (number < *end).then_some(number)
    }

    fn leave(&mut self, first: u64, end: u64) {
        if first < end {
            self.left.insert(first, end);
        }
        // These numbers are too old for any reference to contain them.
        let oldest = self.next.saturating_sub(NUMBERS);
        while self.left.first_key_value().is_some_and(|(_, end)| *end < oldest) {
            self.left.pop_first();
        }
    }
}

/// Returns the offset of the buffer to which a reference refers.
pub(crate) fn offset(reference: u64) -> u64 {
    (reference & ((1 << PLACE_BITS) - 1)) << LINE_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> LoanNumbers {
        LoanNumbers::of(ChannelId(7))
    }

    #[test]
    fn a_reference_is_received_once_in_any_order() {
        let (mut owner, mut reader) = (numbers(), numbers());
        let told: Vec<u64> = (0..1000).map(|at| owner.lend(at % 10 * 64)).collect();
        assert!(told.iter().enumerate().all(|(at, told)| offset(*told) == at as u64 % 10 * 64));
        for at in (0..1000).map(|at| at * 617 % 1000) {
            assert!(reader.is_new(told[at]) && reader.receive(told[at]), "{at}");
            assert!(!reader.is_new(told[at]) && !reader.receive(told[at]), "{at} again");
        }
        assert!(reader.left.is_empty(), "{reader:?}");
        assert!(told.iter().all(|told| !reader.receive(*told)));
    }

    #[test]
    fn numbers_come_again_and_old_references_are_refused() {
        let (mut owner, mut reader) = (numbers(), numbers());
        let first = owner.lend(64);
        assert!(reader.receive(first));
        let kept = owner.lend(128);
        for at in 0..NUMBERS / 2 - 2 {
            let told = owner.lend(192);
            assert!(reader.receive(told), "{at}");
        }
        assert!(!reader.receive(first));
        assert!(reader.receive(kept) && !reader.receive(kept));
        for at in 0..NUMBERS {
            let told = owner.lend(192);
            assert!(reader.receive(told), "{at}");
        }
        assert!(reader.left.is_empty(), "{reader:?}");
    }

    #[test]
    fn references_far_ahead_and_of_other_links_are_refused() {
        let mut reader = numbers();
        assert!(!reader.receive(0x4000));
        let refused = (0..100).filter(|channel| {
            let mut other = LoanNumbers::of(ChannelId(1000 + channel));
            !numbers().receive(other.lend(64))
        });
        assert!(refused.count() > 80);
        assert!(reader.receive(numbers().lend(64)));
    }
}
