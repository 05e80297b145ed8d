//! What a receiver knows of one transfer.

use crate::segments::SegmentSet;
use crate::silence::{STEADY, Silence};
use crate::turns::Place;
use unrack_units::Time;

/// Which segments have arrived, and which were granted and have not.
#[derive(Debug, Clone)]
pub struct Grants {
    segments: u32,
    arrived: SegmentSet,
    outstanding: SegmentSet,
    /// All before have arrived or are outstanding.
    cursor: u32,
    /// The latest that arrived of those granted since the last [`Grants::expire`] is the one before.
    reached: u32,
    /// Outstanding, and before the latest that arrived.
    overtaken: u32,
    /// Since a segment last arrived, with others granted.
    silence: Silence,
    given_up: bool,
    /// With the scheduler of its receiver.
    pub(crate) place: Place,
}

impl Grants {
    /// The first `unasked` are under way without a grant. `order`: of its opening.
    pub fn new(segments: u32, unasked: u32, order: u32) -> Grants {
        let mut outstanding = SegmentSet::new(segments);
        let cursor = unasked.min(segments);
        for segment in 0..cursor {
            outstanding.insert(segment);
        }
        let (arrived, place) = (SegmentSet::new(segments), Place::new(order));
        Grants {
            segments,
            arrived,
            outstanding,
            cursor,
            reached: 0,
            overtaken: 0,
            silence: Silence::default(),
            given_up: false,
            place,
        }
    }

    /// Of the whole transfer.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Segments that have not arrived.
    pub fn remaining(&self) -> u32 {
        self.segments - self.arrived.count()
    }

    pub fn is_complete(&self) -> bool {
        self.remaining() == 0
    }

    /// Its receiver wants nothing more of it: all is here, or it has given up.
    pub fn is_over(&self) -> bool {
        self.is_complete() || self.given_up
    }

    /// See [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Nothing has come of its grants for long: those of whom something comes go before it.
    pub fn is_silent(&self) -> bool {
        self.silence.is_long()
    }

    /// What a scheduler that prefers small transfers goes by, while something is left to be granted.
    pub fn size(&self) -> Option<u32> {
        let size = if self.is_silent() { u32::MAX } else { self.remaining() };
        self.is_pending().then_some(size)
    }

    /// Granted (or unasked), and not arrived.
    pub fn outstanding(&self) -> u32 {
        self.outstanding.count()
    }

    /// Of those outstanding, how many were granted after all that has arrived since: the others are overdue.
    pub fn unanswered(&self) -> u32 {
        self.outstanding.count() - self.overtaken
    }

    /// Something is left to be granted.
    pub fn is_pending(&self) -> bool {
        self.cursor < self.segments && !self.given_up
    }

    /// Whether it had not arrived before.
    pub fn arrive(&mut self, segment: u32) -> bool {
        // What was given up, and comes late, says nothing of what was granted since.
        let was_outstanding = self.outstanding.remove(segment);
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

    /// The next segment to be granted, which it is by this.
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

    /// A grant did not come to its sender: this segment is to be granted again.
    pub fn give_back(&mut self, segment: u32) {
        if self.outstanding.remove(segment) {
            self.overtaken -= u32::from(segment < self.reached);
            self.cursor = self.cursor.min(segment);
        }
    }

    /// Nothing has arrived for as long as [`Grants::timeout`]: what is outstanding is lost, and is to be granted again,
    /// unless its receiver gives up. Where nothing was granted, nothing could arrive.
    pub fn handle_timeout(&mut self, timeout: Time) {
        if self.outstanding() > 0 {
            self.given_up = self.silence.handle_timeout(timeout, STEADY).is_none();
        }
        self.expire();
    }

    /// How long to wait for something to arrive, where it is at first `timeout`.
    pub fn timeout(&self, timeout: Time) -> Time {
        self.silence.timeout(timeout, STEADY)
    }

    /// What is outstanding is lost, and is to be granted again.
    pub fn expire(&mut self) {
        self.outstanding.clear();
        (self.cursor, self.reached, self.overtaken) = (0, 0, 0);
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
        /// Each segment is always exactly one of: arrived, outstanding, to be granted.
        #[test]
        fn no_segment_is_lost_or_granted_twice(
            segments in 1u32..150, unasked in 0u32..20, steps in prop::collection::vec(0u32..400, 0..300),
        ) {
            let mut grants = Grants::new(segments, unasked, 1);
            let mut under_way: Vec<u32> = (0..unasked.min(segments)).collect();
            let mut arrived = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    0..150 => if let Some(segment) = grants.grant() {
                        prop_assert!(!under_way.contains(&segment) && !arrived.contains(&segment));
                        under_way.push(segment);
                    },
                    // Late, or twice.
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
                    }
                    _ => {}
                }
                prop_assert_eq!(grants.outstanding() as usize, under_way.len());
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
