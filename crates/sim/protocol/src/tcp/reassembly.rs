//! Reassembly of segments into their order at a receiver.

use super::ranges::SequenceRanges;

/// Set of the segments of a stream that have arrived: all segments before the next expected one, and some segments beyond it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reassembly {
    next: u32,
    beyond: SequenceRanges,
}

impl Reassembly {
    /// Returns the number of the next expected segment. All segments with lower numbers have arrived and been delivered in order.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Returns the segments that arrived out of order.
    pub(super) fn beyond(&self) -> &SequenceRanges {
        &self.beyond
    }

    /// Adds a segment that has arrived. Returns how many segments can now be delivered in order. This is 0 if the segment is a duplicate,
    /// or if a segment before it is missing.
    pub(crate) fn add(&mut self, number: u32) -> u32 {
        let before = self.next;
        if number > self.next {
            self.beyond.insert(number..number + 1);
        } else if number == self.next {
            self.next = self.beyond.gap_from(number + 1);
            if !self.beyond.is_empty() {
                self.beyond.remove_below(self.next);
            }
        }
        self.next - before
    }
}
