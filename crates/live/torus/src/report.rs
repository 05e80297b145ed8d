//! Reports of threads during a run, and the report of the whole run.

use crate::content::Arrived;
use crate::node::{LiveCounters, SourceFlow};
use crate::site::Queues;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use unrack_units::Time;

/// A report from a thread of nodes to the thread that runs flows.
pub(crate) struct ThreadReport {
    pub at: Time,
    pub told: Told,
}

pub(crate) enum Told {
    Opened {
        message: u32,
        flow: SourceFlow,
    },
    Complete {
        flow: SourceFlow,
        arrived: Arrived,
    },
    /// The source has ended the flow: all bytes are acknowledged, or the destination was silent for too long.
    Over {
        message: u32,
        retransmissions: u32,
        is_there: bool,
    },
    Totals(Box<Totals>),
}

/// Counts of a thread since the last request for them.
pub(crate) struct Totals {
    pub counters: LiveCounters,
    pub queues: Queues,
    /// Time that packets waited for this thread after they were due, in ns.
    pub late: Histogram<u64>,
    /// Packets put on links, and taken from links, since the rack started.
    pub pushed: u64,
    pub popped: u64,
}

/// Outcome of a message in a live run. Times are in ps since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LiveOutcome {
    /// Time at which the source accepted the message.
    pub submitted_ps: u64,
    /// Time at which the last byte of the message was delivered. If the destination is on another machine, it is the time at which the
    /// source received the acknowledgement. `None`: the message was abandoned.
    pub completed_ps: Option<u64>,
    pub retransmissions: u32,
}

/// Report of a run: the outcomes of its messages, and its counts.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct LiveReport {
    /// Outcomes, in the order in which the messages were given.
    pub outcomes: Vec<LiveOutcome>,
    /// Bytes that differ from those that were sent; zero in a correct run.
    pub wrong_bytes: u64,
    pub counters: LiveCounters,
    /// Bytes that each data packet found in the queue ahead of it, at each link.
    #[serde(with = "recorded")]
    pub queue_bytes: Histogram<u64>,
    /// Maximum bytes that a data packet found in the queue ahead of it, by link.
    pub most_queued: Vec<u64>,
    /// Time that packets waited for a thread after they were due, in ns. This is the delay that the emulation adds to each hop.
    #[serde(with = "recorded")]
    pub late_ns: Histogram<u64>,
    /// Time at which the last message ended, in ps since the start of the run.
    pub ended_ps: u64,
}

/// State of a run in progress.
pub(crate) struct RunLedger {
    outcomes: Vec<LiveOutcome>,
    bytes: Vec<u64>,
    /// Messages, by the open flow that carries them.
    carried: HashMap<SourceFlow, u32>,
    open: usize,
    wrong_bytes: u64,
    began: Time,
    ended: Time,
}

impl RunLedger {
    /// Starts the ledger of a run. `bytes` are the sizes of its messages, and `began` is when the run began.
    pub(crate) fn new(bytes: Vec<u64>, began: Time) -> RunLedger {
        RunLedger {
            outcomes: vec![LiveOutcome::default(); bytes.len()],
            open: bytes.len(),
            bytes,
            carried: HashMap::new(),
            wrong_bytes: 0,
            began,
            ended: began,
        }
    }

    /// Returns whether all messages have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.open == 0
    }

    /// Enters the report of a thread, which was made at time `at`.
    pub(crate) fn enter(&mut self, at: Time, told: &Told) {
        let since = at.saturating_sub(self.began).as_ps();
        match *told {
            Told::Opened { message, flow } => {
                self.outcomes[message as usize].submitted_ps = since;
                self.carried.insert(flow, message);
            }
            Told::Complete { flow, arrived } => {
                self.wrong_bytes += arrived.wrong;
                // A flow of an earlier run, or from another machine, has no message in this run.
                let Some(message) = self.carried.remove(&flow).map(|message| message as usize) else {
                    return;
                };
                self.outcomes[message].completed_ps = Some(since);
                self.wrong_bytes += arrived.bytes.abs_diff(self.bytes[message]);
            }
            Told::Over { message, retransmissions, is_there } => {
                let outcome = &mut self.outcomes[message as usize];
                outcome.retransmissions = retransmissions;
                if is_there && outcome.completed_ps.is_none() {
                    outcome.completed_ps = Some(since);
                }
                self.open -= 1;
                self.ended = self.ended.max(at);
            }
            Told::Totals(_) => {}
        }
    }

    /// Returns the report of the run, with the threads' counts.
    pub(crate) fn close(self, totals: Totals) -> LiveReport {
        LiveReport {
            outcomes: self.outcomes,
            wrong_bytes: self.wrong_bytes,
            counters: totals.counters,
            queue_bytes: totals.queues.found,
            most_queued: totals.queues.most,
            late_ns: totals.late,
            ended_ps: (self.ended - self.began).as_ps(),
        }
    }
}

/// Returns an empty histogram of bytes or ns with three significant digits. Values above 2^40 (a terabyte, or a quarter of an hour) count
/// as 2^40.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 40, 3).expect("constant bounds are valid")
}

/// Serialization of a histogram as pairs of a value and its count.
mod recorded {
    use hdrhistogram::Histogram;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the pairs of a histogram.
    pub(crate) fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        let pairs = histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        pairs.collect::<Vec<_>>().serialize(to)
    }

    /// Reads a histogram from its pairs.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let mut histogram = super::empty_histogram();
        for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
            histogram.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}
