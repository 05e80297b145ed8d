//! Reliability (§6: left open there), apart from rate control: which segments of a flow are there, and what is sent
//! again.
//!
//! A receiver acknowledges so many segments at once; a sender sends again what is not acknowledged once all was sent
//! and its [`Patience`] has run out. What comes before its turn waits in a [`Reorder`].

mod patience;
mod reorder;

pub use patience::Patience;
pub use reorder::{Placed, Reorder};

use crate::segments::SegmentSet;

/// What one end has sent, and knows to be there.
#[derive(Debug, Clone)]
pub struct Sender {
    next: u32,
    acked: SegmentSet,
    segments: u32,
    /// How many beyond the first that is not acknowledged the destination has room for.
    window: u32,
    /// Sends again what is not acknowledged, from here on.
    again: Option<u32>,
}

impl Sender {
    pub fn new(segments: u32) -> Sender {
        Sender { next: 0, acked: SegmentSet::new(segments), segments, window: u32::MAX, again: None }
    }

    /// To a destination that has room for so many: what is further ahead it would not keep.
    pub fn within(self, window: u32) -> Sender {
        Sender { window, ..self }
    }

    /// What it sends next, and whether that was sent before.
    pub fn next(&self) -> Option<(u32, bool)> {
        match self.again {
            Some(from) => {
                let segment = self.acked.first_absent(from);
                (segment < self.next).then_some((segment, true))
            }
            None => {
                let has_room = self.next - self.acked.first_absent(0) < self.window;
                (self.next < self.segments && has_room).then_some((self.next, false))
            }
        }
    }

    /// That was sent. Whether it was the last for now: all was sent, or more would find no room.
    pub fn sent(&mut self, segment: u32) -> bool {
        match &mut self.again {
            Some(from) => *from = segment + 1,
            None => self.next = segment + 1,
        }
        if self.again.is_some() && self.next().is_none() {
            self.again = None;
        }
        self.next().is_none()
    }

    /// Has sent all of it at least once.
    pub fn is_through(&self) -> bool {
        self.next == self.segments
    }

    /// All below `next` are there, and of the 64 from there on those of the mask: whatever numbers these are.
    pub fn acknowledge(&mut self, next: u32, mask: u64) {
        let mut from = self.acked.first_absent(0);
        while from < next.min(self.segments) {
            self.acked.insert(from);
            from = self.acked.first_absent(from);
        }
        let beyond = (0..64).filter(|bit| mask >> bit & 1 == 1).filter_map(|bit| next.checked_add(bit));
        beyond.filter(|segment| *segment < self.segments).for_each(|segment| {
            self.acked.insert(segment);
        });
    }

    /// So many segments are there.
    pub fn acknowledged(&self) -> u32 {
        self.acked.count()
    }

    /// Whether this one is there.
    pub fn is_acknowledged(&self, segment: u32) -> bool {
        self.acked.contains(segment)
    }

    /// All of it is there.
    pub fn is_done(&self) -> bool {
        self.acked.count() == self.segments
    }

    /// Time is up: sends again what is not acknowledged.
    pub fn send_again(&mut self) {
        self.again = Some(0);
    }

    /// Sends nothing again for now. Whether it did, and has to wait.
    pub fn rest(&mut self) -> bool {
        self.again.take().is_some() && !self.is_done()
    }
}
