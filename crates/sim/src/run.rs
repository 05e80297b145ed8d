//! What a run leaves behind, under 100 bytes per message.

use crate::engine::Counters;
use hdrhistogram::Histogram;
use unrack_units::Time;
use unrack_workload::Message;

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub submitted: Time,
    /// `None`: it did not finish.
    pub completed: Option<Time>,
    pub retransmissions: u32,
    pub drops: u32,
}

impl Outcome {
    pub(crate) fn submitted(now: Time) -> Outcome {
        Outcome { submitted: now, completed: None, retransmissions: 0, drops: 0 }
    }

    /// From submission to completion.
    pub fn completion(&self) -> Option<Time> {
        self.completed.map(|at| at - self.submitted)
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every message finished.
    Done,
    /// Nothing was left to happen. Messages that are unfinished then are stuck: the fabric lost them.
    Idle,
    /// The time limit came first.
    TimeLimit,
}

/// A finished run. The three tables have one row per message, in order of submission.
pub struct Run {
    pub messages: Vec<Message>,
    pub outcomes: Vec<Outcome>,
    /// Completion time of the same message alone in the same network.
    pub ideal: Vec<Time>,
    pub counters: Counters,
    /// Bytes found waiting ahead by each data packet at each switch port.
    pub queue_bytes: Histogram<u64>,
    /// When the run ended, in simulated time.
    pub ended: Time,
    pub ending: Ending,
}
