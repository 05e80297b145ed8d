//! Reorder buffer at the destination of a flow (§5.2). Parts of the flow that arrive out of order wait in the buffer, up to a limit.

use super::Unsaid;
use std::collections::VecDeque;

/// Buffer that delivers the parts of a flow in order. A part is the payload of one packet. `T` is the type that holds its bytes, so that
/// the buffer does not copy them.
#[derive(Debug, Clone)]
pub struct Reorder<T> {
    /// Number of the next part to deliver. All parts with lower numbers were delivered.
    next: u32,
    /// Parts with numbers from `next` on, with `None` for each part that has not arrived.
    waiting: VecDeque<Option<T>>,
    window: u32,
    /// Number of parts of the flow, once the last part has arrived.
    parts: Option<u32>,
    unsaid: Unsaid,
}

/// Outcome of a part's arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartArrival<T> {
    /// The part is stored in the buffer until all parts before it have been delivered. If that is the case already, [`Reorder::pop`]
    /// returns it.
    Waits,
    /// The part had arrived before.
    Again(T),
    /// The part is beyond the window, or beyond the last part of the flow. It counts as lost.
    Refused(T),
}

impl<T> Reorder<T> {
    /// Creates a buffer that accepts the next `window` parts, counted from the next part to deliver. A `window` of 0 counts as 1.
    pub fn new(window: u32) -> Reorder<T> {
        let unsaid = Unsaid::default();
        Reorder { next: 0, waiting: VecDeque::new(), window: window.max(1), parts: None, unsaid }
    }

    /// Handles the arrival of a part.
    pub fn put(&mut self, number: u32, is_last: bool, part: T) -> PartArrival<T> {
        let Some(ahead) = number.checked_sub(self.next) else { return PartArrival::Again(part) };
        let ends = is_last.then_some(number.saturating_add(1));
        let is_beyond = self.parts.is_some_and(|parts| number >= parts);
        // A part that claims to be the last one is wrong if a part with a higher number has arrived, or if another part claimed to be the
        // last one.
        let contradicts = ends.is_some_and(|end| {
            self.parts.is_some_and(|parts| parts != end)
                || end < self.next.saturating_add(self.waiting.len() as u32)
        });
        if ahead >= self.window || is_beyond || contradicts {
            return PartArrival::Refused(part);
        }
        let ahead = ahead as usize;
        if self.waiting.len() <= ahead {
            self.waiting.resize_with(ahead + 1, || None);
        }
        let place = &mut self.waiting[ahead];
        if place.is_some() {
            return PartArrival::Again(part);
        }
        *place = Some(part);
        self.parts = self.parts.or(ends);
        PartArrival::Waits
    }

    /// Returns the next part in order and its number, if the part has arrived.
    pub fn pop(&mut self) -> Option<(u32, T)> {
        let part = self.waiting.front_mut()?.take()?;
        self.waiting.pop_front();
        self.next += 1;
        Some((self.next - 1, part))
    }

    /// Returns whether the whole flow was delivered.
    pub fn is_complete(&self) -> bool {
        self.parts == Some(self.next)
    }

    /// Returns whether this is the next part to deliver.
    pub fn is_next(&self, number: u32) -> bool {
        self.next == number
    }

    /// Returns the number of parts that the buffer spans, including missing ones, from the next part to deliver up to the highest one that
    /// has arrived.
    pub fn span(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether the destination must send an acknowledgement now, after the arrival of a part that was not refused. If so, the
    /// acknowledgement counts as sent.
    pub fn is_due(&mut self, is_again: bool, ack_every: u32) -> bool {
        let is_complete = self.is_complete();
        self.unsaid.is_due(is_complete, is_again, ack_every)
    }

    /// Returns the content of an acknowledgement, which is a number and a mask. All parts below the number have arrived. Of the 64 parts
    /// from this number on, those have arrived whose bit is set in the mask.
    pub fn acknowledgement(&self) -> (u32, u64) {
        let first = self.waiting.iter().take_while(|part| part.is_some()).count();
        let beyond = self.waiting.iter().skip(first).take(64).enumerate();
        let mask = beyond.filter(|(_, part)| part.is_some()).fold(0, |mask, (bit, _)| mask | 1 << bit);
        (self.next + first as u32, mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::r2c2::transfer::Sender;
    use proptest::prelude::*;

    proptest! {
        /// Whatever packets are lost, duplicated or reordered, all parts are delivered exactly once and in order as long as the sender
        /// retransmits. The transfer does not end before all parts are delivered.
        #[test]
        fn all_comes_in_order(
            parts in 1u32..200, window in 1u32..80, ack_every in 1u32..20,
            fates in prop::collection::vec((0u8..4, 0usize..40), 50..400),
        ) {
            let (mut sender, mut buffer) = (Sender::new(parts).within(window), Reorder::new(window));
            let (mut wire, mut given) = (Vec::new(), Vec::new());
            let mut fates = fates.into_iter().cycle();
            let mut turns = 0;
            while !sender.is_done() {
                turns += 1;
                prop_assert!(turns < 200_000, "it does not end");
                match sender.next() {
                    Some((part, _)) => {
                        sender.sent(part);
                        let (fate, _) = fates.next().unwrap();
                        // One part in four is lost, and one is duplicated.
                        (0..[0, 2, 1, 1][usize::from(fate)]).for_each(|_| wire.push(part));
                    }
                    None => {
                        sender.rest();
                    }
                }
                let (_, at) = fates.next().unwrap();
                if wire.is_empty() {
                    sender.send_again();
                } else if wire.len() > 30 || sender.next().is_none() {
                    let part = wire.swap_remove(at % wire.len());
                    let placed = buffer.put(part, part + 1 == parts, part);
                    prop_assert!(placed != PartArrival::Refused(part), "the sender knows how much room there is");
                    prop_assert!(buffer.span() <= window as usize);
                    let (told, _) = buffer.acknowledgement();
                    while let Some((number, part)) = buffer.pop() {
                        prop_assert_eq!(number, part);
                        given.push(part);
                    }
                    prop_assert_eq!(told as usize, given.len());
                    if buffer.is_due(matches!(placed, PartArrival::Again(_)), ack_every) {
                        let (next, mask) = buffer.acknowledgement();
                        sender.acknowledge(next, mask);
                    }
                }
            }
            prop_assert!(buffer.is_complete());
            prop_assert!(given.into_iter().eq(0..parts));
        }

        /// If parts with arbitrary numbers arrive, the buffer delivers no part twice or out of order, and no part beyond the last one.
        #[test]
        fn any_numbers(numbers in prop::collection::vec((prop_oneof![0u32..40, any::<u32>()], any::<bool>()), 0..200)) {
            let mut buffer = Reorder::new(16);
            let mut next = 0;
            for (number, is_last) in numbers {
                let was_complete = buffer.is_complete();
                buffer.put(number, is_last, number);
                while let Some((given, part)) = buffer.pop() {
                    prop_assert!(given == next && part == next && !was_complete);
                    next += 1;
                }
                prop_assert!(buffer.span() <= 16);
                let (told, mask) = buffer.acknowledgement();
                prop_assert!(told == next && mask & 1 == 0);
            }
        }
    }
}
