//! RoCE's loss recovery (go-back-N): the receiver accepts segments only in order, and its replies report the segment
//! that it expects next.

use crate::silence::{STEADY, TimeoutCount};
use unrack_units::Time;

/// Sending side of one transfer, with go-back-N retransmission.
#[derive(Debug, Clone)]
pub struct Sender {
    segments: u32,
    /// Number of acknowledged segments. All segments with lower numbers have arrived.
    acknowledged: u32,
    next: u32,
    /// Number of segments that were sent at least once.
    sent: u32,
    deadline: Time,
    rto: Time,
    /// Count of timeouts since the last reply that acknowledged further segments.
    silence: TimeoutCount,
    given_up: bool,
}

impl Sender {
    /// Creates the sender of a transfer of `segments` segments. `salt` seeds the random extra length of its timeouts
    /// ([`TimeoutCount`]).
    pub fn new(segments: u32, rto: Time, now: Time, salt: u32) -> Sender {
        let (deadline, silence) = (now + rto, TimeoutCount::new(salt));
        Sender { segments, acknowledged: 0, next: 0, sent: 0, deadline, rto, silence, given_up: false }
    }

    /// Returns whether all segments are acknowledged, or the sender has given up.
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.segments || self.given_up
    }

    /// Returns whether the sender has given up, because the receiver has not replied for too long; see
    /// [`silence`](crate::silence).
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Returns whether the sender has a segment to send now.
    pub fn is_ready(&self) -> bool {
        self.next < self.segments && !self.given_up
    }

    /// Returns the number of the segment to send now, and whether that segment was sent before. Returns `None` if the
    /// sender has no segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(u32, bool)> {
        if !self.is_ready() {
            return None;
        }
        let segment = self.next;
        self.next += 1;
        let again = segment < self.sent;
        self.sent = self.sent.max(self.next);
        self.deadline = now + self.silence.timeout(self.rto, STEADY);
        Some((segment, again))
    }

    /// Handles a reply, which acknowledges all segments before `wanted`. If the reply has `lost`, the receiver has
    /// received a later segment than `wanted`. The sender then goes back to segment `wanted`.
    pub fn handle_reply(&mut self, now: Time, reply: Reply) {
        let Reply { wanted, lost } = reply;
        if wanted < self.acknowledged {
            return;
        }
        if wanted > self.acknowledged {
            self.silence.end();
        }
        self.acknowledged = wanted;
        self.deadline = now + self.silence.timeout(self.rto, STEADY);
        self.next = if lost { wanted } else { self.next.max(wanted) };
    }

    /// Returns when [`handle_timeout`](Sender::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.is_done()).then_some(self.deadline)
    }

    /// Goes back to the first unacknowledged segment if no reply has arrived for a retransmission timeout. Gives up
    /// after too many timeouts without progress.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.is_done() && now >= self.deadline {
            self.next = self.acknowledged;
            match self.silence.handle_timeout(self.rto, STEADY) {
                Some(timeout) => self.deadline = now + timeout,
                None => self.given_up = true,
            }
        }
    }
}

/// Reply of a receiver to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Number of the first missing segment.
    pub wanted: u32,
    /// Whether a later segment than `wanted` has arrived, so that segment `wanted` counts as lost.
    pub lost: bool,
}

/// Receiving side of one transfer.
#[derive(Debug, Clone)]
pub struct Receiver {
    segments: u32,
    wanted: u32,
    /// Whether the receiver has already reported the loss of segment `wanted`. It does not report this loss again.
    asked: bool,
}

impl Receiver {
    /// Creates the receiver of a transfer of `segments` segments.
    pub fn new(segments: u32) -> Receiver {
        Receiver { segments, wanted: 0, asked: false }
    }

    /// Returns whether all segments have arrived.
    pub fn is_complete(&self) -> bool {
        self.wanted == self.segments
    }

    /// Handles the arrival of segment `number`. Returns a reply to send if the arrival shows a loss that was not
    /// reported before, if the segment completes the transfer, or if the segment is a duplicate.
    pub fn handle_segment(&mut self, number: u32) -> Option<Reply> {
        if number == self.wanted {
            self.wanted += 1;
            self.asked = false;
            return self.is_complete().then_some(Reply { wanted: self.wanted, lost: false });
        }
        let lost = number > self.wanted;
        let new = !lost || !std::mem::replace(&mut self.asked, true);
        new.then_some(Reply { wanted: self.wanted, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every segment arrives in the end, whichever packets are lost in either direction.
        #[test]
        fn every_segment_arrives(segments in 1u32..50, losses in prop::collection::vec(any::<bool>(), 0..300)) {
            let mut losses = losses.into_iter();
            let mut lost = move || losses.next().unwrap_or(false);
            let rto = Time::from_us(10);
            let (mut sender, mut receiver) = (Sender::new(segments, rto, Time::ZERO, 1), Receiver::new(segments));
            let (mut now, mut complete) = (Time::ZERO, 0);
            for _ in 0..20_000 {
                now += Time::from_us(1);
                if let Some((segment, _)) = sender.poll_transmit(now) {
                    if lost() {
                        continue;
                    }
                    let before = receiver.is_complete();
                    let reply = receiver.handle_segment(segment);
                    complete += u32::from(receiver.is_complete() && !before);
                    if let Some(reply) = reply.filter(|_| !lost()) {
                        sender.handle_reply(now, reply);
                    }
                }
                sender.handle_timeout(now);
            }
            prop_assert!(sender.is_done() && receiver.is_complete() && complete == 1);
        }
    }
}
