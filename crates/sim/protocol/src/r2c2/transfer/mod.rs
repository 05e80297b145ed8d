//! Acknowledgement and retransmission of the segments of a flow. The paper leaves reliability open (§6). Here it is separate from rate
//! control.
//!
//! A receiver acknowledges several segments at once. A sender first sends every segment once. When its [`RetransmissionTimer`] then
//! expires, the sender retransmits the segments that are not acknowledged. At the receiver, segments that arrive out of order wait in a
//! [`Reorder`] buffer, which stores their bytes.

mod patience;
mod reorder;

pub use patience::RetransmissionTimer;
pub use reorder::{PartArrival, Reorder};

/// Number of segments that a destination has received since its last acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsaid(u32);

impl Unsaid {
    /// Counts a segment that has arrived. Returns whether the receiver must send an acknowledgement now; if so, it counts as sent. An
    /// acknowledgement is due in three cases: the segment completes the flow; the segment had arrived before, so that its source evidently
    /// does not know this; or `ack_every` segments have arrived since the last acknowledgement.
    pub fn is_due(&mut self, completes: bool, is_again: bool, ack_every: u32) -> bool {
        self.0 += 1;
        let is_due = completes || is_again || self.0 >= ack_every;
        if is_due {
            self.0 = 0;
        }
        is_due
    }
}

use crate::segments::SegmentSet;

/// Sending side of a flow: the segments that the source has sent, and those that the destination has acknowledged.
#[derive(Debug, Clone)]
pub struct Sender {
    next: u32,
    acked: SegmentSet,
    /// First segment that is not acknowledged.
    una: u32,
    segments: u32,
    /// Number of segments for which the destination has room, counted from the first unacknowledged segment.
    window: u32,
    /// Next segment to examine for retransmission, or `None` if no retransmission is in progress.
    again: Option<u32>,
}

impl Sender {
    /// Creates the sender of a flow of `segments` segments.
    pub fn new(segments: u32) -> Sender {
        Sender { next: 0, acked: SegmentSet::new(segments), una: 0, segments, window: u32::MAX, again: None }
    }

    /// Limits the sender to a window of `window` segments from the first unacknowledged one, because the destination discards segments
    /// beyond this window.
    pub fn within(self, window: u32) -> Sender {
        Sender { window, ..self }
    }

    /// Returns the segment to send next, and whether this segment was sent before.
    pub fn next(&self) -> Option<(u32, bool)> {
        match self.again {
            Some(from) => {
                let segment = self.acked.first_absent(from);
                (segment < self.next).then_some((segment, true))
            }
            None => {
                let has_room = self.next - self.una < self.window;
                (self.next < self.segments && has_room).then_some((self.next, false))
            }
        }
    }

    /// Records that a segment was sent. Returns whether the sender must now wait for an acknowledgement, because all segments were sent or
    /// because the destination has no room for more.
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

    /// Returns whether every segment was sent at least once.
    pub fn is_through(&self) -> bool {
        self.next == self.segments
    }

    /// Records an acknowledgement: all segments with numbers below `next` have arrived and, of the 64 segments from `next` on, those whose
    /// bit is set in `mask`. Arbitrary values are accepted, because they come from the network.
    pub fn acknowledge(&mut self, next: u32, mask: u64) {
        while self.una < next.min(self.segments) {
            self.acked.insert(self.una);
            self.una = self.acked.first_absent(self.una);
        }
        let beyond = (0..64).filter(|bit| mask >> bit & 1 == 1).filter_map(|bit| next.checked_add(bit));
        beyond.filter(|segment| *segment < self.segments).for_each(|segment| {
            self.acked.insert(segment);
        });
        self.una = self.acked.first_absent(self.una);
    }

    /// Returns the number of segments acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acked.count()
    }

    /// Returns whether a segment is acknowledged.
    pub fn is_acknowledged(&self, segment: u32) -> bool {
        self.acked.contains(segment)
    }

    /// Returns whether all segments are acknowledged.
    pub fn is_done(&self) -> bool {
        self.acked.count() == self.segments
    }

    /// Starts to retransmit the unacknowledged segments after a retransmission timeout.
    pub fn send_again(&mut self) {
        self.again = Some(0);
    }

    /// Ends the current round of retransmissions. Returns whether one was in progress; if so, the sender has to wait for an
    /// acknowledgement.
    pub fn rest(&mut self) -> bool {
        self.again.take().is_some() && !self.is_done()
    }
}
