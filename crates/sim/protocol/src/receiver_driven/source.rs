//! Sending side of one transfer.

use crate::segments::SegmentSet;
use crate::silence::TimeoutCount;
use std::collections::VecDeque;
use unrack_units::Time;

/// Sending side of a transfer. It sends the first segments without a grant, and then the granted segments in the order of their grants.
#[derive(Debug, Clone)]
pub struct GrantedSender {
    segments: u32,
    /// Segments that need no grant and have not been sent yet.
    unasked: std::ops::Range<u32>,
    granted: VecDeque<GrantedBytes>,
    /// First segment that was never granted. No segment with a higher number was granted either.
    new: u32,
    /// Segments sent at least once.
    sent: SegmentSet,
    expiry: Option<Expiry>,
    /// Time by which the sender could have sent all segments that it was allowed to send so far.
    allowed_until: Time,
    /// Time of the next timeout, unless a packet from the receiver arrives before.
    deadline: Time,
    timeout: Time,
    /// Number of timeouts since the last packet from the receiver. At each of them, the sender announced the transfer again.
    silence: TimeoutCount,
    done: bool,
    given_up: bool,
}

/// Lifetime of grants. A grant expires the time `after` after the sender could first have used it. The sender can use a grant once the
/// grant has arrived and all segments allowed before could have been sent, where one segment takes the time `pace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    pub after: Time,
    pub pace: Time,
}

#[derive(Debug, Clone, Copy)]
struct GrantedBytes {
    segment: u32,
    rank: u8,
    until: Time,
}

/// Segment to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    pub segment: u32,
    /// Rank that the grant assigned to the segment, or `None` if the segment needed no grant.
    pub rank: Option<u8>,
    /// Whether it had been sent before.
    pub again: bool,
}

impl GrantedSender {
    /// Creates the sender of a transfer of `segments` segments. The first `unasked` segments need no grant. If `expiry` is given, grants
    /// that the sender does not use in time are void. If no packet from the receiver arrives for the time `timeout`, the sender has to
    /// announce the transfer again. `salt` seeds the random extra waits of its timeouts ([`TimeoutCount`]).
    pub fn new(
        segments: u32,
        unasked: u32,
        expiry: Option<Expiry>,
        (timeout, salt): (Time, u32),
        now: Time,
    ) -> GrantedSender {
        let new = unasked.min(segments);
        let (unasked, granted, deadline) = (0..new, VecDeque::new(), now + timeout);
        let allowed_until = now + expiry.map_or(Time::ZERO, |expiry| expiry.pace * u64::from(new));
        let (sent, silence) = (SegmentSet::new(segments), TimeoutCount::new(salt));
        GrantedSender {
            segments,
            unasked,
            granted,
            new,
            sent,
            expiry,
            allowed_until,
            deadline,
            timeout,
            silence,
            done: false,
            given_up: false,
        }
    }

    /// Returns the number of segments of the transfer that were never sent.
    pub fn unsent(&self) -> u32 {
        self.segments - self.sent.count()
    }

    /// Returns the number of unused grants.
    pub fn granted(&self) -> u32 {
        self.granted.len() as u32
    }

    /// Returns whether the transfer has ended, because the receiver expects no more segments or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether the sender has given up; see [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns whether the sender may have a segment to send now.
    pub fn is_ready(&self) -> bool {
        !self.done && (!self.unasked.is_empty() || !self.granted.is_empty())
    }

    /// Returns the segment to send now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Send> {
        if self.done {
            return None;
        }
        let (segment, rank) = match self.unasked.next() {
            Some(segment) => (segment, None),
            None => loop {
                let granted = self.granted.pop_front()?;
                if granted.until >= now {
                    break (granted.segment, Some(granted.rank));
                }
            },
        };
        let again = !self.sent.insert(segment);
        Some(Send { segment, rank, again })
    }

    /// Handles a grant for a segment. If the segment is already queued to be sent, it is not queued twice.
    pub fn handle_grant(&mut self, now: Time, segment: u32, rank: u8) {
        if self.given_up {
            return;
        }
        self.silence.end();
        self.deadline = now + self.silence.timeout(self.timeout, 0);
        let until = self.expiry.map_or(Time::MAX, |Expiry { after, pace }| {
            let usable = self.allowed_until.max(now);
            self.allowed_until = usable + pace;
            usable + after
        });
        if segment >= self.new {
            self.new = segment + 1;
        } else if self.unasked.contains(&segment) {
            return;
        } else if let Some(known) = self.granted.iter_mut().find(|known| known.segment == segment) {
            known.until = until;
            return;
        }
        self.granted.push_back(GrantedBytes { segment, rank, until });
    }

    /// Ends the transfer at the sender, because the receiver has reported that it has all segments or has given up.
    pub fn handle_done(&mut self) {
        self.done = true;
        self.granted.clear();
    }

    /// Returns when [`handle_timeout`](GrantedSender::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.done).then_some(self.deadline)
    }

    /// Handles a timeout. Returns whether the sender should announce the transfer to the receiver again; it does not do so while it has
    /// segments to send. The timeout doubles after each announcement without an answer.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        if self.done || now < self.deadline {
            return false;
        }
        let silent = !self.is_ready();
        let next = match silent {
            true => self.silence.handle_timeout(self.timeout, 0),
            false => Some(self.silence.timeout(self.timeout, 0)),
        };
        match next {
            Some(timeout) => self.deadline = now + timeout,
            None => {
                self.handle_done();
                self.given_up = true;
            }
        }
        silent && !self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Time = Time::from_us(10);

    fn segments(source: &mut GrantedSender, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| source.poll_transmit(now).map(|send| send.segment)).collect()
    }

    #[test]
    fn it_sends_unasked_and_then_what_is_granted_once() {
        let mut source = GrantedSender::new(6, 2, None, (TIMEOUT, 1), Time::ZERO);
        source.handle_grant(Time::ZERO, 1, 1);
        assert_eq!(segments(&mut source, Time::ZERO), [0, 1]);
        source.handle_grant(Time::from_us(1), 2, 1);
        source.handle_grant(Time::from_us(1), 3, 1);
        source.handle_grant(Time::from_us(1), 2, 1);
        assert_eq!(segments(&mut source, Time::from_us(50)), [2, 3]);
        source.handle_grant(Time::from_us(51), 0, 4);
        let again = source.poll_transmit(Time::from_us(51));
        assert_eq!(again, Some(Send { segment: 0, rank: Some(4), again: true }));
        assert_eq!(source.unsent(), 2);
        source.handle_done();
        assert!(source.is_done() && !source.is_ready() && source.poll_timeout().is_none());
    }

    #[test]
    fn grants_expire_and_silence_is_broken() {
        let expiry = Expiry { after: Time::from_us(2), pace: Time::from_us(1) };
        let mut source = GrantedSender::new(7, 0, Some(expiry), (TIMEOUT, 1), Time::ZERO);
        assert!(!source.handle_timeout(Time::from_us(9)));
        assert!(source.handle_timeout(TIMEOUT));
        source.handle_grant(Time::from_us(11), 0, 1);
        source.handle_grant(Time::from_us(12), 1, 1);
        // After the first timeout, waits are longer by up to a half.
        let next = source.poll_timeout().unwrap();
        assert!((Time::from_us(22)..Time::from_us(27)).contains(&next), "{next}");
        assert_eq!(segments(&mut source, Time::from_us(14)), [1]);
        // Three grants arrive at once, therefore the third could not be used before two microseconds had passed.
        (2..5).for_each(|segment| source.handle_grant(Time::from_us(20), segment, 1));
        assert_eq!(segments(&mut source, Time::from_us(24)), [4]);
    }
}
