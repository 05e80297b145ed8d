//! State of one transfer at its receiver.

use crate::segments::SegmentSet;
use crate::silence::TimeoutCount;
use crate::turns::TurnIndex;
use unrack_units::Time;

/// State of one transfer at its receiver: the segments that have arrived, and the outstanding segments, which the sender may send but which
/// have not arrived yet.
#[derive(Debug, Clone)]
pub struct Grants {
    segments: u32,
    arrived: SegmentSet,
    outstanding: SegmentSet,
    /// Segments with lower numbers needed no grant. 0 once the receiver counts these segments as lost.
    unasked_end: u32,
    /// Outstanding segments that needed no grant.
    unasked: u32,
    /// Next segment to grant. All segments with lower numbers have arrived or are outstanding.
    cursor: u32,
    /// One past the highest segment that has arrived, of the segments granted since the last [`Grants::expire`].
    reached: u32,
    /// Number of outstanding segments that were overtaken, which means that a segment with a higher number has arrived.
    overtaken: u32,
    /// Number of timeouts since a segment last arrived. Only timeouts with outstanding segments count.
    silence: TimeoutCount,
    steady: u32,
    given_up: bool,
    /// Position of the transfer in the queue of the receiver's scheduler.
    pub(crate) place: TurnIndex,
}

impl Grants {
    /// Creates the state of a transfer whose first `unasked` segments are in flight without a grant. `order` is the number of transfers
    /// that were opened before this one. `salt` seeds the random extra waits of its timeouts ([`TimeoutCount`]), and the first `steady`
    /// timeouts in a row have the same length.
    pub fn new(segments: u32, unasked: u32, order: u32, (salt, steady): (u32, u32)) -> Grants {
        let mut outstanding = SegmentSet::new(segments);
        let cursor = unasked.min(segments);
        for segment in 0..cursor {
            outstanding.insert(segment);
        }
        let (arrived, place) = (SegmentSet::new(segments), TurnIndex::new(order));
        Grants {
            segments,
            arrived,
            outstanding,
            unasked_end: cursor,
            unasked: cursor,
            cursor,
            reached: 0,
            overtaken: 0,
            silence: TimeoutCount::new(salt),
            steady,
            given_up: false,
            place,
        }
    }

    /// Returns the number of segments of the whole transfer.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Returns the number of segments of the transfer that have not arrived.
    pub fn remaining(&self) -> u32 {
        self.segments - self.arrived.count()
    }

    /// Returns whether all segments have arrived.
    pub fn is_complete(&self) -> bool {
        self.remaining() == 0
    }

    /// Returns whether the receiver expects no more segments of the transfer, because all have arrived or because it has given up.
    pub fn is_over(&self) -> bool {
        self.is_complete() || self.given_up
    }

    /// Returns whether the receiver has given up; see [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns whether the sender has not answered grants for so long that other transfers should take precedence.
    pub fn is_silent(&self) -> bool {
        self.silence.is_long()
    }

    /// Returns the size by which a scheduler that prefers small transfers ranks this transfer: the number of missing segments, or
    /// `u32::MAX` if the sender has been silent for long. Returns `None` if no segment is left to grant.
    pub fn size(&self) -> Option<u32> {
        let size = if self.is_silent() { u32::MAX } else { self.remaining() };
        self.is_pending().then_some(size)
    }

    /// Returns the number of outstanding segments: those that were granted or need no grant, and have not arrived.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.count()
    }

    /// Returns whether any of the outstanding segments needed no grant.
    pub fn awaits_unasked(&self) -> bool {
        self.unasked > 0
    }

    /// Returns the number of outstanding segments that have not been overtaken, because no segment with a higher number has arrived.
    /// Overtaken segments are overdue and therefore not counted.
    pub fn unanswered(&self) -> u32 {
        self.outstanding.count() - self.overtaken
    }

    /// Returns whether the receiver can still grant a segment of the transfer.
    pub fn is_pending(&self) -> bool {
        self.cursor < self.segments && !self.given_up
    }

    /// Records the arrival of a segment. Returns whether it had not arrived before.
    pub fn arrive(&mut self, segment: u32) -> bool {
        // The late arrival of a segment that already counted as lost does not show that later grants were overtaken.
        let was_outstanding = self.outstanding.remove(segment);
        self.unasked -= u32::from(was_outstanding && segment < self.unasked_end);
        if was_outstanding && segment >= self.reached {
            let overtaken = (self.reached..segment).filter(|other| self.outstanding.contains(*other));
            self.overtaken += overtaken.count() as u32;
            self.reached = segment + 1;
        } else if was_outstanding {
            self.overtaken -= 1;
        }
        let new = self.arrived.insert(segment);
        if new {
            self.silence.end();
        }
        self.advance();
        new
    }

    /// Grants the next segment, and returns it.
    pub fn grant(&mut self) -> Option<u32> {
        let segment = self.cursor;
        if !self.is_pending() {
            return None;
        }
        self.outstanding.insert(segment);
        self.overtaken += u32::from(segment < self.reached);
        self.advance();
        Some(segment)
    }

    /// Handles a timeout: no segment has arrived for the duration of [`Grants::timeout`]. All outstanding segments count as lost, and the
    /// receiver may give up. If no segment was outstanding, the timeout does not count towards giving up, because no segment could arrive.
    pub fn handle_timeout(&mut self, timeout: Time) {
        if self.outstanding() > 0 {
            self.given_up = self.silence.handle_timeout(timeout, self.steady).is_none();
        }
        self.expire();
    }

    /// Returns how long the receiver should wait for the arrival of a segment. `timeout` is the length of the first timeout.
    pub fn timeout(&self, timeout: Time) -> Time {
        self.silence.timeout(timeout, self.steady)
    }

    /// Counts all outstanding segments as lost, so that the receiver grants them again.
    pub fn expire(&mut self) {
        self.outstanding.clear();
        (self.cursor, self.reached, self.overtaken) = (0, 0, 0);
        (self.unasked_end, self.unasked) = (0, 0);
        self.advance();
    }

    fn advance(&mut self) {
        while self.cursor < self.segments
            && (self.arrived.contains(self.cursor) || self.outstanding.contains(self.cursor))
        {
            self.cursor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// At any time, each segment of a transfer is in exactly one state: arrived, outstanding, or still to be granted.
        #[test]
        fn no_segment_is_lost_or_granted_twice(
            segments in 1u32..150, unasked in 0u32..20, steps in prop::collection::vec(0u32..400, 0..300),
        ) {
            let mut grants = Grants::new(segments, unasked, 1, (1, 64));
            let mut under_way: Vec<u32> = (0..unasked.min(segments)).collect();
            let mut arrived = std::collections::BTreeSet::new();
            let mut is_expired = false;
            for step in steps {
                match step {
                    0..150 => if let Some(segment) = grants.grant() {
                        prop_assert!(!under_way.contains(&segment) && !arrived.contains(&segment));
                        under_way.push(segment);
                    },
                    // A late or duplicate arrival.
                    150..170 => {
                        let segment = step % segments;
                        if grants.arrive(segment) {
                            under_way.retain(|other| *other != segment);
                            arrived.insert(segment);
                        }
                    }
                    170..380 if !under_way.is_empty() => {
                        let segment = under_way.remove(step as usize % under_way.len());
                        prop_assert_eq!(grants.arrive(segment), arrived.insert(segment));
                    }
                    380..400 => {
                        grants.expire();
                        under_way.clear();
                        is_expired = true;
                    }
                    _ => {}
                }
                prop_assert_eq!(grants.outstanding() as usize, under_way.len());
                let awaited = under_way.iter().filter(|segment| **segment < unasked && !is_expired).count();
                prop_assert_eq!(grants.awaits_unasked(), awaited > 0);
                let unanswered = under_way.iter().filter(|segment| **segment >= grants.reached).count();
                prop_assert_eq!(grants.unanswered() as usize, unanswered);
                prop_assert_eq!(grants.remaining() as usize, segments as usize - arrived.len());
                prop_assert_eq!(grants.is_pending(), under_way.len() + arrived.len() < segments as usize);
            }
            while let Some(segment) = grants.grant() {
                under_way.push(segment);
            }
            for segment in under_way {
                grants.arrive(segment);
            }
            prop_assert!(grants.is_complete());
        }
    }
}
