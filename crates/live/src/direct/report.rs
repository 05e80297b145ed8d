//! What is told of a run, and what it comes to.

use super::content::Arrived;
use super::node::{Counters, FlowKey};
use super::site::Queues;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use unrack_units::Time;

/// What a thread tells whoever runs flows.
pub(crate) struct News {
    pub at: Time,
    pub told: Told,
}

pub(crate) enum Told {
    Opened {
        message: u32,
        flow: FlowKey,
    },
    Complete {
        flow: FlowKey,
        arrived: Arrived,
    },
    /// Its source wants no more of it: all is known to be there, or nothing was heard for too long.
    Over {
        message: u32,
        retransmissions: u32,
        is_there: bool,
    },
    Totals(Box<Totals>),
}

/// Of a thread since the last time.
pub(crate) struct Totals {
    pub counters: Counters,
    pub queues: Queues,
    /// How long packets waited for this thread after they were due, in ns.
    pub late: Histogram<u64>,
    /// Packets put on links, and taken from them, since the rack is up.
    pub pushed: u64,
    pub popped: u64,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// When its source took it on, since the run began.
    pub submitted_ps: u64,
    /// When its last byte was handed over at its destination; when its source knew, if that is on another machine.
    /// `None`: it was given up.
    pub completed_ps: Option<u64>,
    pub retransmissions: u32,
}

/// What became of the messages of a run.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// As the messages were given.
    pub outcomes: Vec<Outcome>,
    /// Bytes that came and are not those that were sent. There should be none.
    pub wrong_bytes: u64,
    pub counters: Counters,
    /// Bytes found waiting ahead by each data packet at each link.
    #[serde(with = "recorded")]
    pub queue_bytes: Histogram<u64>,
    /// By link, the most bytes that a data packet found ahead of it.
    pub most_queued: Vec<u64>,
    /// How long packets waited for a thread after they were due, in ns: what the emulation adds to each hop.
    #[serde(with = "recorded")]
    pub late_ns: Histogram<u64>,
    /// When the last message ended.
    pub ended_ps: u64,
}

/// A run under way.
pub(crate) struct Ledger {
    outcomes: Vec<Outcome>,
    bytes: Vec<u64>,
    /// Messages by the flow that carries them now.
    carried: HashMap<FlowKey, u32>,
    open: usize,
    wrong_bytes: u64,
    began: Time,
    ended: Time,
}

impl Ledger {
    /// Of messages of so many bytes, in a run that began then.
    pub fn new(bytes: Vec<u64>, began: Time) -> Ledger {
        Ledger {
            outcomes: vec![Outcome::default(); bytes.len()],
            open: bytes.len(),
            bytes,
            carried: HashMap::new(),
            wrong_bytes: 0,
            began,
            ended: began,
        }
    }

    pub fn is_over(&self) -> bool {
        self.open == 0
    }

    pub fn enter(&mut self, at: Time, told: &Told) {
        let since = at.saturating_sub(self.began).as_ps();
        match *told {
            Told::Opened { message, flow } => {
                self.outcomes[message as usize].submitted_ps = since;
                self.carried.insert(flow, message);
            }
            Told::Complete { flow, arrived } => {
                self.wrong_bytes += arrived.wrong;
                // Of a flow of another run, or from another machine, nothing else is known.
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

    pub fn close(self, totals: Totals) -> Report {
        Report {
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

/// Of bytes or ns, to three significant digits; what is above a terabyte, or a quarter of an hour, counts as that.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 40, 3).expect("constant bounds are valid")
}

/// A distribution as pairs of a value and how often it was.
mod recorded {
    use hdrhistogram::Histogram;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        let pairs = histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
        pairs.collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let mut histogram = super::empty_histogram();
        for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
            histogram.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}
