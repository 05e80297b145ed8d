//! Results of a run, under 100 bytes per message.

use crate::events::{BusyTimes, Counters};
use crate::inside::HostCounts;
use hdrhistogram::Histogram;
use unrack_units::Time;
use unrack_workload::Message;

/// Result of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub submitted: Time,
    /// Time of completion, [`GIVEN_UP`], or [`UNFINISHED`].
    completed: Time,
    pub retransmissions: u32,
    /// Packets lost on the way.
    pub drops: u32,
    /// Packets that lost their payload on the way, and went on as a header.
    pub trims: u32,
}

const UNFINISHED: Time = Time::MAX;
/// Value of `completed` for a message that was given up.
const GIVEN_UP: Time = Time::from_ps(u64::MAX - 1);

impl Outcome {
    /// Creates the outcome of a message that was measured, not simulated. `completed` is `None` if it was given up.
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
    /// If the message is already complete or given up: a fabric completes a message once.
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

    /// Marks the message as given up if it is still open; returns whether it was open.
    #[inline]
    pub(crate) fn give_up(&mut self) -> bool {
        let was_open = self.completed == UNFINISHED;
        if was_open {
            self.completed = GIVEN_UP;
        }
        was_open
    }

    /// Merges the outcome of the same message in another part of a split run: at most one part knows how the message
    /// ended, and each part counts the losses that it saw.
    pub(crate) fn add(&mut self, part: &Outcome) {
        self.completed = self.completed.min(part.completed);
        self.retransmissions += part.retransmissions;
        self.drops += part.drops;
        self.trims += part.trims;
    }

    /// Returns the time of completion; `None` if the message did not finish.
    #[inline]
    pub fn completed(&self) -> Option<Time> {
        (self.completed < GIVEN_UP).then_some(self.completed)
    }

    /// Returns whether the sender, or the node that waited for the message, gave up.
    pub fn is_given_up(&self) -> bool {
        self.completed == GIVEN_UP
    }

    /// Returns the time from submission to completion.
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
    /// No event was left. Messages that are still unfinished are stuck: the fabric lost them.
    Idle,
    /// The time limit came first.
    TimeLimit,
    /// The end of simulated time came first.
    OutOfTime,
}

impl Ending {
    /// Returns the reason why messages are unfinished in a run that ended this way.
    pub const fn why_unfinished(self) -> &'static str {
        match self {
            Ending::Done => "who sent or awaited them gave up",
            Ending::Idle => "the fabric lost them: nothing was left to happen",
            Ending::TimeLimit => "the time limit came first",
            Ending::OutOfTime => "simulated time ended first, after 106 days",
        }
    }
}

/// A finished run. The three tables have one row per message, in order of submission.
pub struct Run {
    pub messages: Vec<Message>,
    pub outcomes: Vec<Outcome>,
    /// Completion times of the same messages, each alone on the same fabric.
    pub unloaded: Vec<Time>,
    pub counters: Counters,
    /// Bytes found waiting ahead by each data packet at each switch port.
    pub queue_bytes: Histogram<u64>,
    /// Time in which each link carried bits.
    pub busy: BusyTimes,
    /// Counts from inside hosts, if anything takes time there.
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

    /// Returns the slowdown of message `index`: completion time over unloaded completion time. `None` if it did not
    /// finish.
    pub fn slowdown(&self, index: usize) -> Option<f64> {
        let completion = self.outcomes[index].completion()?;
        Some(completion.as_ps() as f64 / self.unloaded[index].as_ps() as f64)
    }
}

// Memory per message, as promised above.
const _: () = assert!(size_of::<Message>() + size_of::<Outcome>() + size_of::<Time>() <= 72);
