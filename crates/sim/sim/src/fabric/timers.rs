//! Timers of items in a slab, of which most never run out.
//!
//! Nearly all timeouts are of the same length, so that those set later are due later: they wait in a plain queue with
//! a single event for the first of them, and those whose owner has finished meanwhile cost no event at all. A timer
//! that breaks the order gets an event of its own.

use std::collections::VecDeque;
use unrack_units::Time;

/// A timer's owner and its serial number: the owner's place in the slab may be another's by the time the timer is
/// due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    pub(in crate::fabric) owner: u32,
    pub(in crate::fabric) serial: u32,
    pub(in crate::fabric) side: Side,
}

/// One of the two ends of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Sender,
    Receiver,
}

#[derive(Default)]
pub(in crate::fabric) struct Timers {
    waiting: VecDeque<(Time, Alarm)>,
    /// The event of the queue is scheduled.
    scheduled: bool,
}

/// Event that a newly set timer needs.
pub(in crate::fabric) enum Needs {
    Nothing,
    /// An event for the queue.
    QueueEvent,
    /// An event for this timer.
    OwnEvent,
}

impl Timers {
    pub(in crate::fabric) fn set(&mut self, at: Time, alarm: Alarm) -> Needs {
        let last = self.waiting.back().map(|(at, _)| *at);
        if last.is_some_and(|last| at < last) {
            return Needs::OwnEvent;
        }
        self.waiting.push_back((at, alarm));
        if std::mem::replace(&mut self.scheduled, true) { Needs::Nothing } else { Needs::QueueEvent }
    }

    pub(in crate::fabric) fn pop_due(&mut self, now: Time) -> Option<Alarm> {
        let (at, alarm) = *self.waiting.front()?;
        if at > now {
            return None;
        }
        self.waiting.pop_front();
        Some(alarm)
    }

    /// Returns when the queue needs its next event. To be called when its event has come and nothing is due any more.
    /// Forgets dead timers at the front.
    pub(in crate::fabric) fn next(&mut self, mut live: impl FnMut(Alarm) -> bool) -> Option<Time> {
        while let Some(&(at, alarm)) = self.waiting.front() {
            if live(alarm) {
                return Some(at);
            }
            self.waiting.pop_front();
        }
        self.scheduled = false;
        None
    }
}
