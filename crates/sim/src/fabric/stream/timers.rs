//! Timers that mostly never run out.
//!
//! Nearly all timeouts are the same length, so that those set later are due later: they wait in a
//! plain queue with a single event for the first of them, and those whose stream has finished
//! meanwhile cost no event at all. One that breaks the order gets an event of its own.

use std::collections::VecDeque;
use unrack_units::Time;

/// A stream, and its serial number: its place may be another stream's by the time this is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    pub(super) stream: u32,
    pub(super) serial: u32,
}

#[derive(Default)]
pub(super) struct Timers {
    waiting: VecDeque<(Time, Alarm)>,
    /// The queue has its event.
    scheduled: bool,
}

/// The event that a newly set timer needs.
pub(super) enum Needs {
    Nothing,
    /// One for the queue.
    QueueEvent,
    /// One for this timer.
    OwnEvent,
}

impl Timers {
    pub(super) fn set(&mut self, at: Time, alarm: Alarm) -> Needs {
        let last = self.waiting.back().map(|(at, _)| *at);
        if last.is_some_and(|last| at < last) {
            return Needs::OwnEvent;
        }
        self.waiting.push_back((at, alarm));
        if std::mem::replace(&mut self.scheduled, true) { Needs::Nothing } else { Needs::QueueEvent }
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<Alarm> {
        let (at, alarm) = *self.waiting.front()?;
        if at > now {
            return None;
        }
        self.waiting.pop_front();
        Some(alarm)
    }

    /// To be asked when the queue's event has come and nothing is due any more: when it needs the
    /// next. Forgets dead timers at the front.
    pub(super) fn next(&mut self, live: impl Fn(Alarm) -> bool) -> Option<Time> {
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
