//! Results of a run, in less than 100 bytes per message.

use crate::events::{BusyTimes, Counters};
use crate::inside::HostCounts;
use hdrhistogram::Histogram;
use unrack_units::Time;
use unrack_workload::Message;

/// Outcome of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub submitted: Time,
    /// Time of completion, or one of the marks [`GIVEN_UP`] and [`UNFINISHED`].
    completed: Time,
    pub retransmissions: u32,
    /// Packets lost on the way.
    pub drops: u32,
    /// Packets that lost their payload on the way: a switch trimmed them and forwarded only the header.
    pub trims: u32,
}

const UNFINISHED: Time = Time::MAX;
/// Value of `completed` if the message was given up.
const GIVEN_UP: Time = Time::from_ps(u64::MAX - 1);

impl Outcome {
    /// Creates the outcome of a message that was measured instead of simulated. `completed` is `None` if the message
    /// was given up.
    pub fn measured(submitted: Time, completed: Option<Time>, retransmissions: u32) -> Outcome {
        Outcome { submitted, completed: completed.unwrap_or(GIVEN_UP), retransmissions, drops: 0, trims: 0 }
    }

    #[inline]
    pub(crate) fn submitted(now: Time) -> Outcome {
        Outcome { submitted: now, completed: UNFINISHED, retransmissions: 0, drops: 0, trims: 0 }
    }

    /// Sets the time of completion.
    ///
    /// # Panics
    /// If the message is already complete or given up, because a fabric completes a message once.
    #[inline]
    pub(crate) fn complete(&mut self, now: Time) {
        assert!(self.completed == UNFINISHED, "a message completed twice");
        self.completed = now;
    }

    /// Marks the message as neither complete nor given up, whatever was recorded before.
    #[inline]
    pub(crate) fn reopen(&mut self) {
        self.completed = UNFINISHED;
    }

    /// Marks the message as given up if it is still open. Returns whether it was open.
    #[inline]
    pub(crate) fn give_up(&mut self) -> bool {
        let was_open = self.completed == UNFINISHED;
        if was_open {
            self.completed = GIVEN_UP;
        }
        was_open
    }

    /// Merges the outcome that another part of a split run recorded for the same message. At most one part knows how
    /// the message ended, and each part counts only the losses that it saw.
    pub(crate) fn add(&mut self, part: &Outcome) {
        self.completed = self.completed.min(part.completed);
        self.retransmissions += part.retransmissions;
        self.drops += part.drops;
        self.trims += part.trims;
    }

    /// Returns the time of completion; `None` if the message did not complete.
    #[inline]
    pub fn completed(&self) -> Option<Time> {
        (self.completed < GIVEN_UP).then_some(self.completed)
    }

    /// Returns whether the sender, or the node that waited for the message, gave up.
    pub fn is_given_up(&self) -> bool {
        self.completed == GIVEN_UP
    }

    /// Returns the time from submission to completion; `None` if the message did not complete.
    #[inline]
    pub fn completion(&self) -> Option<Time> {
        self.completed().map(|at| at - self.submitted)
    }
}

/// Reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every message finished or was given up.
    Done,
    /// No event was left, but messages are unfinished. The fabric lost them.
    Idle,
    /// The run reached its time limit.
    TimeLimit,
    /// The run reached the end of simulated time.
    OutOfTime,
}

impl Ending {
    /// Returns why messages are unfinished in a run that ended for this reason.
    pub const fn why_unfinished(self) -> &'static str {
        match self {
            Ending::Done => "who sent or awaited them gave up",
            Ending::Idle => "the fabric lost them: nothing was left to happen",
            Ending::TimeLimit => "the time limit came first",
            Ending::OutOfTime => "simulated time ended first, after 106 days",
        }
    }
}

/// A finished run. Its three tables have one row per message, in order of submission.
pub struct Run {
    pub messages: Vec<Message>,
    pub outcomes: Vec<Outcome>,
    /// Completion time of each message alone on the same fabric.
    pub unloaded: Vec<Time>,
    pub counters: Counters,
    /// Bytes that each data packet found waiting ahead of it at each switch port.
    pub queue_bytes: Histogram<u64>,
    /// Time during which each link carried bits.
    pub busy: BusyTimes,
    /// Counts from inside hosts; `None` if hosts take no time.
    pub hosts: Option<HostCounts>,
    /// Simulated time at which the run ended.
    pub ended: Time,
    pub ending: Ending,
}

impl Run {
    /// Returns whether the run ended because every message finished, and none was given up.
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Done && self.finished() == self.messages.len() as u64
    }

    /// Returns the number of messages that completed.
    pub fn finished(&self) -> u64 {
        self.outcomes.iter().filter(|outcome| outcome.completed().is_some()).count() as u64
    }

    /// Returns the slowdown of message `index`: its completion time divided by its unloaded completion time. `None` if
    /// the message did not complete.
    pub fn slowdown(&self, index: usize) -> Option<f64> {
        let completion = self.outcomes[index].completion()?;
        Some(completion.as_ps() as f64 / self.unloaded[index].as_ps() as f64)
    }
}

// Holds the promise of the module documentation about memory per message.
const _: () = assert!(size_of::<Message>() + size_of::<Outcome>() + size_of::<Time>() <= 72);
