//! Parts of `unrack sim`'s `summary.json` that a report uses.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use unrack_record::DistributionSummary;
use unrack_units::Warning;

/// Summary of a simulation. Distributions are over the messages that count and have finished; if there are none, their numbers are NaN.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SimulationSummary {
    pub fabric: String,
    pub nodes: u64,
    pub messages: u64,
    pub completed: u64,
    /// Packets lost on the way to their destination.
    pub dropped: u64,
    pub unfinished: Option<UnfinishedMessages>,
    /// Messages that are excluded from the figures.
    #[serde(default)]
    pub excluded: ExcludedMessages,
    /// Warnings about influences on the figures other than the fabric; empty for runs by versions without such warnings.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Completion time divided by that of the same message alone on the same fabric.
    #[serde(deserialize_with = "spread")]
    pub slowdown: DistributionSummary,
    #[serde(deserialize_with = "spread")]
    pub completion_ns: DistributionSummary,
    pub by_kind: BTreeMap<String, KindOfMessage>,
    pub throughput_gbps: f64,
    pub queue_bytes: QueueDepths,
    /// Replay of a program, if there was one.
    pub program: Option<ReplayEffect>,
    /// Jobs by name, if there were any.
    #[serde(default)]
    pub jobs: BTreeMap<String, JobResult>,
}

/// Outcome of a job.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JobResult {
    pub hosts: Vec<u32>,
    /// Time until the job ended; `None` if it did not end.
    pub completion_ns: Option<f64>,
    pub communication_ns: f64,
    pub waiting_ns: f64,
    pub compute_ns: f64,
    pub bytes: u64,
    /// Time from each request to its answer, for a job that sends requests.
    #[serde(default)]
    pub request_ns: Option<RequestFigures>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RequestFigures {
    pub mean: f64,
    pub p99: f64,
}

/// Numbers of messages at the start and at the end of the run that are excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct ExcludedMessages {
    pub warm_up: u64,
    pub cool_down: u64,
}

impl ExcludedMessages {
    /// Returns the rows of the messages that count. `rows` has one row for each message.
    pub(crate) fn counted<T>(self, rows: &[T]) -> &[T] {
        let from = rows.len().min(self.warm_up as usize);
        &rows[from..from.max(rows.len().saturating_sub(self.cool_down as usize))]
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UnfinishedMessages {
    pub messages: u64,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct KindOfMessage {
    pub messages: u64,
    #[serde(deserialize_with = "spread")]
    pub slowdown: DistributionSummary,
}

/// Bytes that packets found queued ahead of them at switch ports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct QueueDepths {
    pub mean: f64,
    pub p99: f64,
    pub max: f64,
}

/// Effect on the program's run time, by closed-loop replay.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReplayEffect {
    pub replicas: u64,
    pub slowdown: f64,
}

/// Reads a distribution, whose numbers are null if no message was counted.
fn spread<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DistributionSummary, D::Error> {
    #[derive(Deserialize)]
    struct Stats {
        count: u64,
        mean: Option<f64>,
        p50: Option<f64>,
        p95: Option<f64>,
        p99: Option<f64>,
        p999: Option<f64>,
        max: Option<f64>,
    }
    let stats = Stats::deserialize(deserializer)?;
    let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
    Ok(DistributionSummary {
        mean: known(stats.mean),
        p50: known(stats.p50),
        p95: known(stats.p95),
        p99: known(stats.p99),
        p999: known(stats.p999),
        max: known(stats.max),
        count: stats.count,
    })
}
