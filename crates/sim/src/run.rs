//! What a run leaves behind, under 100 bytes per message.

use crate::engine::{BusyTimes, Counters};
use crate::host::Counts;
use hdrhistogram::Histogram;
use unrack_units::Time;
use unrack_workload::Message;

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub submitted: Time,
    /// [`UNFINISHED`] until it is.
    completed: Time,
    pub retransmissions: u32,
    pub drops: u32,
}

const UNFINISHED: Time = Time::MAX;
/// Instead of the time of completion.
const GIVEN_UP: Time = Time::from_ps(u64::MAX - 1);

impl Outcome {
    /// Of a message that was not simulated. `completed` is `None` if it was given up.
    pub fn measured(submitted: Time, completed: Option<Time>, retransmissions: u32) -> Outcome {
        Outcome { submitted, completed: completed.unwrap_or(GIVEN_UP), retransmissions, drops: 0 }
    }

    pub(crate) fn submitted(now: Time) -> Outcome {
        Outcome { submitted: now, completed: UNFINISHED, retransmissions: 0, drops: 0 }
    }

    /// # Panics
    /// If it already was: a fabric completes a message once.
    pub(crate) fn complete(&mut self, now: Time) {
        assert!(self.completed == UNFINISHED, "a message completed twice");
        self.completed = now;
    }

    /// It is neither complete nor given up, whatever was said before.
    pub(crate) fn reopen(&mut self) {
        self.completed = UNFINISHED;
    }

    /// It will not be complete. Whether it was open.
    pub(crate) fn give_up(&mut self) -> bool {
        let was_open = self.completed == UNFINISHED;
        if was_open {
            self.completed = GIVEN_UP;
        }
        was_open
    }

    /// Of another part of the same run: one at the most knows how it ended, all count what they saw.
    pub(crate) fn add(&mut self, part: &Outcome) {
        self.completed = self.completed.min(part.completed);
        self.retransmissions += part.retransmissions;
        self.drops += part.drops;
    }

    /// When it was complete; `None`: it did not finish.
    pub fn completed(&self) -> Option<Time> {
        (self.completed < GIVEN_UP).then_some(self.completed)
    }

    /// Whoever sent it, or waited for it, gave up.
    pub fn is_given_up(&self) -> bool {
        self.completed == GIVEN_UP
    }

    /// From submission to completion.
    pub fn completion(&self) -> Option<Time> {
        self.completed().map(|at| at - self.submitted)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every message finished or was given up.
    Done,
    /// Nothing was left to happen. Messages that are unfinished then are stuck: the fabric lost them.
    Idle,
    /// The time limit came first.
    TimeLimit,
    /// The end of simulated time came first.
    OutOfTime,
}

impl Ending {
    /// Why messages of a run that ended so are unfinished.
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
    /// Completion time of the same message alone on the same fabric.
    pub unloaded: Vec<Time>,
    pub counters: Counters,
    /// Bytes found waiting ahead by each data packet at each switch port.
    pub queue_bytes: Histogram<u64>,
    /// How long each link carried bits.
    pub busy: BusyTimes,
    /// What happened inside hosts, if anything takes time there.
    pub hosts: Option<Counts>,
    /// When the run ended, in simulated time.
    pub ended: Time,
    pub ending: Ending,
}

impl Run {
    /// Every message finished.
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Done && self.finished() == self.messages.len() as u64
    }

    pub fn finished(&self) -> u64 {
        self.outcomes.iter().filter(|outcome| outcome.completed().is_some()).count() as u64
    }

    /// Completion over unloaded completion of the n-th message.
    pub fn slowdown(&self, index: usize) -> Option<f64> {
        let completion = self.outcomes[index].completion()?;
        Some(completion.as_ps() as f64 / self.unloaded[index].as_ps() as f64)
    }
}

// What a message costs in memory, as promised above.
const _: () = assert!(size_of::<Message>() + size_of::<Outcome>() + size_of::<Time>() <= 64);
