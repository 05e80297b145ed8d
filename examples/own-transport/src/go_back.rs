//! Go-back-N: the rules of the transport, without a clock, a network or a random source.

use unrack_units::Time;

/// Timeouts in a row after which a sender gives up.
const MOST_TIMEOUTS: u32 = 16;

/// Sending end of one transfer.
#[derive(Debug)]
pub struct Sender {
    segments: u32,
    window: u32,
    timeout: Time,
    /// Segments that have arrived, from the first on.
    acknowledged: u32,
    next: u32,
    /// Segments that were sent at least once.
    sent: u32,
    deadline: Option<Time>,
    timeouts: u32,
}

impl Sender {
    /// Creates the sender of `segments` segments, at most `window` of which are under way.
    pub fn new(segments: u32, window: u32, timeout: Time) -> Sender {
        Sender { segments, window, timeout, acknowledged: 0, next: 0, sent: 0, deadline: None, timeouts: 0 }
    }

    /// Returns whether a segment may be sent.
    pub fn is_ready(&self) -> bool {
        let limit = self.segments.min(self.acknowledged.saturating_add(self.window));
        self.next < limit && !self.has_given_up()
    }

    /// Returns the next segment to send at `now`, and whether it was sent before.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(u32, bool)> {
        let segment = self.is_ready().then_some(self.next)?;
        let again = segment < self.sent;
        self.next += 1;
        self.sent = self.sent.max(self.next);
        self.deadline = Some(now + self.timeout);
        Some((segment, again))
    }

    /// Handles the news that the first `arrived` segments have arrived.
    pub fn handle_ack(&mut self, now: Time, arrived: u32) {
        if arrived > self.acknowledged {
            (self.acknowledged, self.timeouts) = (arrived, 0);
            self.next = self.next.max(arrived);
            self.deadline = (self.next > arrived).then_some(now + self.timeout);
        }
    }

    /// Returns whether all segments have arrived.
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.segments
    }

    /// Returns the time at which [`Sender::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Goes back to the first segment that may be lost.
    pub fn handle_timeout(&mut self) {
        (self.next, self.deadline) = (self.acknowledged, None);
        self.timeouts += 1;
    }

    /// Returns whether the receiver was silent for too long.
    pub fn has_given_up(&self) -> bool {
        self.timeouts >= MOST_TIMEOUTS
    }
}

#[cfg(test)]
#[test]
fn a_window_is_under_way_and_lost_segments_come_again_with_those_behind() {
    let mut sender = Sender::new(5, 2, Time::from_us(10));
    let sent =
        |sender: &mut Sender, now| std::iter::from_fn(|| sender.poll_transmit(now)).collect::<Vec<_>>();
    assert_eq!(sent(&mut sender, Time::ZERO), [(0, false), (1, false)]);
    sender.handle_ack(Time::from_us(1), 1);
    assert_eq!(sent(&mut sender, Time::from_us(1)), [(2, false)]);
    sender.handle_timeout();
    assert_eq!(sent(&mut sender, Time::from_us(11)), [(1, true), (2, true)]);
    sender.handle_ack(Time::from_us(12), 3);
    assert_eq!((sender.poll_timeout(), sender.is_done()), (None, false));
}
