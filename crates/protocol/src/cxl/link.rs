//! The sending end of a link.

use super::{CLASSES, Class, ClassSet, Line};
use std::collections::VecDeque;
use unrack_units::Time;

/// Source of a transmitter's messages.
pub trait Feed {
    /// Returns the next message of a class in `allowed`; [`complete`](Feed::complete) follows when its last slot is
    /// placed.
    fn take(&mut self, allowed: ClassSet) -> Option<Line>;
    /// Notes that the message taken last ends in the flit being filled.
    fn complete(&mut self, line: Line);
}

/// Fills flits with messages, as far as credits allow.
///
/// A flit is filled when it starts. A message whose slots do not fit continues in the next flit, before anything else
/// (CXL 3.x §4.2: data follows its header). Messages that arrive during a flit wait for the next.
///
/// | what happened | [`handle_credit`](Transmitter::handle_credit) |
/// |---|---|
/// | what to do | [`fill`](Transmitter::fill), at the start of each flit |
/// | what is known | [`is_midway`](Transmitter::is_midway), [`next_credit`](Transmitter::next_credit), [`credits`](Transmitter::credits) |
#[derive(Debug, Clone)]
pub struct FlitTransmitter {
    slots: u32,
    initial: u32,
    credits: [u32; CLASSES],
    /// Classes with credits.
    available: ClassSet,
    /// Credits on their way back, by time of arrival.
    returning: VecDeque<(Time, Class)>,
    /// Message being sent, and its slots left.
    midway: Option<(Line, u32)>,
}

impl FlitTransmitter {
    /// Creates a transmitter with `slots` in a flit and `credits` for each class.
    pub fn new(slots: u32, credits: u32) -> FlitTransmitter {
        FlitTransmitter {
            slots,
            initial: credits,
            credits: [credits; CLASSES],
            available: if credits > 0 { ClassSet::ALL } else { ClassSet::NONE },
            returning: VecDeque::new(),
            midway: None,
        }
    }

    /// Records that a buffer of the receiver came free; the sender learns it at `at`, which never decreases from call
    /// to call.
    pub fn handle_credit(&mut self, at: Time, class: Class) {
        debug_assert!(self.returning.back().is_none_or(|(last, _)| *last <= at), "credits overtake");
        self.returning.push_back((at, class));
    }

    /// Fills the flit that starts now. Returns whether it carries anything.
    pub fn fill(&mut self, now: Time, feed: &mut impl Feed) -> bool {
        self.learn_credits(now);
        let mut room = self.slots;
        while room > 0 {
            let Some((line, slots)) = self.midway.take().or_else(|| self.begin(feed.take(self.available)))
            else {
                break;
            };
            if slots > room {
                self.midway = Some((line, slots - room));
                return true;
            }
            room -= slots;
            feed.complete(line);
        }
        room < self.slots
    }

    fn begin(&mut self, line: Option<Line>) -> Option<(Line, u32)> {
        let line = line?;
        let credits = &mut self.credits[line.class.index()];
        assert!(*credits > 0, "a message was sent without a credit");
        *credits -= 1;
        if *credits == 0 {
            self.available.remove(line.class);
        }
        Some((line, line.class.slots()))
    }

    fn learn_credits(&mut self, now: Time) {
        while let Some(&(at, class)) = self.returning.front()
            && at <= now
        {
            self.returning.pop_front();
            self.credits[class.index()] += 1;
            self.available.insert(class);
            assert!(self.credits[class.index()] <= self.initial, "a credit was created");
        }
    }

    /// Returns whether a message has begun and not ended.
    pub fn is_midway(&self) -> bool {
        self.midway.is_some()
    }

    /// Returns the class of the message being sent.
    pub fn midway_class(&self) -> Option<Class> {
        self.midway.map(|(line, _)| line.class)
    }

    /// Returns when the next credit comes back.
    pub fn next_credit(&self) -> Option<Time> {
        self.returning.front().map(|(at, _)| *at)
    }

    /// Returns the credits for `class` that are here or on their way back. The others belong to messages being sent, on
    /// the wire, or in a buffer of the receiver.
    pub fn credits(&self, class: Class) -> u32 {
        let returning = self.returning.iter().filter(|(_, returned)| *returned == class).count();
        self.credits[class.index()] + returning as u32
    }
}
