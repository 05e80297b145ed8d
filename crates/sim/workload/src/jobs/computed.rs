//! Job whose tasks and messages are computed before the run.

use super::tasks::Tasks;
use crate::message::NodeId;
use std::sync::Arc;
use unrack_units::Time;

/// Job as a sequence of rounds. A round begins when the previous round is complete on all ranks.
#[derive(Debug, Clone)]
pub struct ComputedJob {
    pub name: String,
    pub ranks: u32,
    pub rounds: Vec<Arc<Tasks>>,
    pub start: Time,
    /// Node of each rank, or `None` if the placement policy chooses the nodes.
    pub on: Option<Vec<NodeId>>,
}

impl ComputedJob {
    /// Creates a job of these rounds. It starts at time zero, on nodes that the placement policy chooses.
    pub fn new(name: impl Into<String>, ranks: u32, rounds: Vec<Arc<Tasks>>) -> ComputedJob {
        ComputedJob { name: name.into(), ranks, rounds, start: Time::ZERO, on: None }
    }

    /// Returns the number of messages that the job sends if each of its ranks is on a different host.
    pub fn messages(&self) -> u64 {
        self.sum(|tasks| tasks.messages().count() as u64)
    }

    /// Returns the total bytes of the messages that [`ComputedJob::messages`] counts.
    pub fn bytes(&self) -> u64 {
        self.sum(|tasks| tasks.messages().map(|(_, _, bytes)| bytes).sum())
    }

    /// Returns the bytes of the largest message between ranks of the job.
    pub fn largest(&self) -> u64 {
        let messages = self.rounds.iter().flat_map(|round| round.messages());
        messages.map(|(_, _, bytes)| bytes).max().unwrap_or(0)
    }

    /// Returns the sum of a quantity over all rounds. Rounds are often identical, and each distinct round is therefore
    /// evaluated only once.
    pub(super) fn sum(&self, of: impl Fn(&Tasks) -> u64) -> u64 {
        let mut sum = 0;
        let mut last: Option<(&Arc<Tasks>, u64)> = None;
        for round in &self.rounds {
            let value = match last {
                Some((tasks, value)) if Arc::ptr_eq(tasks, round) => value,
                _ => of(round),
            };
            last = Some((round, value));
            sum += value;
        }
        sum
    }
}
