//! Timers of the items in a slab. Most of these timers never expire.
//!
//! Nearly all timeouts have the same length, so that a timer that is set later is due later. Such timers wait in a FIFO queue with one
//! event for the first timer. A timer whose owner finishes before it is due therefore costs no event. A timer that would break the order of
//! the queue gets a separate event.

use std::collections::VecDeque;
use unrack_units::Time;

/// Identifies a timer by its owner's index in the slab and a serial number. The serial number is needed because the index may belong to
/// another item when the timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    pub(in crate::fabric) owner: u32,
    pub(in crate::fabric) serial: u32,
    pub(in crate::fabric) side: TransferSide,
}

/// One of the two ends of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferSide {
    Sender,
    Receiver,
}

#[derive(Default)]
pub(in crate::fabric) struct Timers {
    waiting: VecDeque<(Time, Alarm)>,
    /// Whether the event of the queue is scheduled.
    scheduled: bool,
}

/// Event that the caller must schedule for a timer that was just set.
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

    /// Returns the time at which the caller must look at the queue again, or `None` if no timer waits. Removes timers at the front that are
    /// no longer live. Call it when the event of the queue has come and all due timers have been popped.
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
