//! Figures of a run, as `unrack sim --json` prints them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use unrack_engine::HostCounts;
use unrack_engine::run::Run;
use unrack_units::Time;
use unrack_units::Warning;
use unrack_workload::jobs::JobOutcome;
use unrack_workload::{CapturedReplay, Kind, Message, RunningJobs};

/// Messages that do not count. The first and last messages of a run are excluded because they do not see its full load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Excluded {
    /// Number of messages that do not count at the beginning, in order of submission.
    pub warm_up: u64,
    /// Number of messages that do not count at the end, in order of submission.
    pub cool_down: u64,
}

impl Excluded {
    /// Returns the indices of the messages that count, if the run has `all` messages.
    pub fn rows(&self, all: usize) -> std::ops::Range<usize> {
        let from = all.min(self.warm_up as usize);
        from..from.max(all.saturating_sub(self.cool_down as usize))
    }
}

/// Figures of a run. Figures of messages cover the messages that count and finished. All figures depend only on the
/// scenario; therefore the time that the run took on the machine is not included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub fabric: String,
    pub nodes: u32,
    /// Number of all submitted messages.
    pub messages: u64,
    pub completed: u64,
    /// Number of packets that were lost on the way. Most protocols retransmit them.
    pub dropped: u64,
    /// Number of packets that switches trimmed to their header, as `ndp` does to signal congestion.
    #[serde(default)]
    pub trimmed: u64,
    /// Messages that did not finish, and the reason; `None` if all messages finished.
    pub unfinished: Option<Unfinished>,
    pub excluded: Excluded,
    /// Causes of the figures other than the fabric: see [`warnings`](crate::warnings()). Empty if not computed.
    pub warnings: Vec<Warning>,
    /// Settings that never acted: see [`notes`](crate::notes()). Empty if all did, or if not computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Warning>,
    /// Completion time of each message, divided by that of the same message alone on the same fabric.
    pub slowdown: Stats,
    pub completion_ns: Stats,
    pub by_kind: BTreeMap<String, KindSummary>,
    /// Payload of the messages, including requests, divided by the time from the first submission to the last
    /// completion.
    pub throughput_gbps: f64,
    /// Rate of background traffic, if there is any: payload that arrived, divided by the duration of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_gbps: Option<f64>,
    /// Bytes that each data packet found waiting ahead of it at each switch port.
    pub queue_bytes: QueueStats,
    /// Figures from inside hosts; `None` if hosts take no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostSummary>,
    /// Results for the program of a closed-loop replay; `None` for other work.
    pub program: Option<Program>,
    /// Results of jobs, by the name of the job; empty if there are no jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub jobs: BTreeMap<String, JobSummary>,
    pub sim_time_ns: f64,
    pub events: u64,
    pub packet_hops: u64,
    pub seed: u64,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    pub messages: u64,
    pub why: String,
}

/// Statistics of a distribution. Percentiles are exact, by nearest rank. If `count` is 0, all others are `None` (null).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stats {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
    pub max: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KindSummary {
    pub messages: u64,
    pub slowdown: Stats,
    pub completion_ns: Stats,
}

/// Statistics of queue lengths in bytes, to three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QueueStats {
    pub mean: f64,
    pub p99: u64,
    pub max: u64,
}

/// Results of a closed-loop replay for the run time of the program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub replicas: u64,
    /// Mean duration of the replayed window, over the replicas.
    pub run_time_ns: f64,
    pub run_time_max_ns: f64,
    /// Duration of the window on a network that takes no time.
    pub zero_latency_ns: f64,
    /// Slowdown of the whole run: its duration divided by the computing time of the program. This assumes that every
    /// transfer of the run takes as long as those of the window.
    pub slowdown: f64,
    /// Number of transfers replayed per replica.
    pub rows: u64,
    /// Number of transfers in the captured run.
    pub rows_in_all: u64,
    pub window_from_ns: f64,
    pub window_until_ns: f64,
}

/// Results of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Node of each rank.
    pub hosts: Vec<u32>,
    /// Time from start to end; `None` if the job did not end.
    pub completion_ns: Option<f64>,
    /// Time during which a message of the job was in flight.
    pub communication_ns: f64,
    /// Time during which no message of the job was in flight, because other jobs had to send first.
    pub waiting_ns: f64,
    /// Computing time of the rank that computed longest.
    pub compute_ns: f64,
    pub messages: u64,
    pub bytes: u64,
    /// Time from each request to its answer; `None` if the job sends no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_ns: Option<Stats>,
}

impl JobSummary {
    /// Returns the results of all jobs of a run that ended at `ended`, by name.
    pub fn all(jobs: &RunningJobs, ended: Time) -> BTreeMap<String, JobSummary> {
        jobs.outcomes(ended).map(|outcome| (outcome.name.to_string(), JobSummary::new(&outcome))).collect()
    }

    fn new(outcome: &JobOutcome) -> JobSummary {
        let requests = outcome.requests.iter().map(|took| took.as_ns_f64());
        JobSummary {
            hosts: outcome.hosts.to_vec(),
            completion_ns: outcome.ended.map(|at| (at - outcome.started).as_ns_f64()),
            communication_ns: outcome.communicated.as_ns_f64(),
            waiting_ns: outcome.waited.as_ns_f64(),
            compute_ns: outcome.computed.as_ns_f64(),
            messages: outcome.messages,
            bytes: outcome.bytes,
            request_ns: (!outcome.requests.is_empty()).then(|| Stats::from_values(requests.collect())),
        }
    }
}

/// Figures from inside hosts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Share of hits among the loads of 64 B from DRAM caches. `None` (null) if there were no such loads.
    pub cache_hit_rate: Option<f64>,
    pub interrupts: u64,
    pub doorbells: u64,
    /// Packets lost because the headroom of a NIC was full.
    pub lost_no_room: u64,
    /// Packets lost because no receive descriptor was posted.
    pub lost_no_descriptor: u64,
    /// Packets lost because no buffer was free.
    pub lost_no_buffer: u64,
    /// Share of the run during which the busiest core worked.
    pub busiest_core: f64,
    /// Share of the run during which a core worked, as the mean over all cores.
    pub mean_core: f64,
    /// Bytes that programs and NICs loaded and stored without crossing the CXL port of a host.
    pub local_bytes: u64,
    /// Bytes that programs and NICs loaded and stored across the CXL port of a host.
    pub cxl_bytes: u64,
}

impl HostSummary {
    fn new(counts: &HostCounts, ended: Time) -> HostSummary {
        let share = |busy: Time| busy.as_ps() as f64 / ended.as_ps().max(1) as f64;
        HostSummary {
            cache_hit_rate: (counts.loads > 0).then(|| counts.hits as f64 / counts.loads as f64),
            interrupts: counts.interrupts,
            doorbells: counts.doorbells,
            lost_no_room: counts.no_room,
            lost_no_descriptor: counts.no_descriptor,
            lost_no_buffer: counts.no_buffer,
            busiest_core: share(counts.busiest),
            mean_core: share(counts.mean),
            local_bytes: counts.local_bytes,
            cxl_bytes: counts.remote_bytes,
        }
    }
}

/// Parts of a summary that a [`Run`] does not contain.
#[derive(Debug, Clone, Copy)]
pub struct SummaryLabels<'a> {
    pub fabric: &'a str,
    pub nodes: u32,
    pub seed: u64,
    pub excluded: Excluded,
}

impl Summary {
    /// Computes the figures of a run.
    pub fn new(run: &Run, labels: &SummaryLabels) -> Summary {
        let counted = CountedMessages::new(run, labels.excluded);
        let completed = run.finished();
        Summary {
            fabric: labels.fabric.into(),
            nodes: labels.nodes,
            messages: run.messages.len() as u64,
            completed,
            dropped: run.counters.dropped_packets,
            trimmed: run.counters.trimmed_packets,
            unfinished: unfinished(run, completed),
            excluded: labels.excluded,
            warnings: Vec::new(),
            notes: Vec::new(),
            slowdown: counted.slowdown(|_| true),
            completion_ns: counted.completion_ns(|_| true),
            by_kind: counted.by_kind(),
            throughput_gbps: counted.throughput_gbps(),
            background_gbps: background_gbps(run),
            queue_bytes: QueueStats {
                mean: run.queue_bytes.mean(),
                p99: run.queue_bytes.value_at_quantile(0.99),
                max: run.queue_bytes.max(),
            },
            hosts: run.hosts.as_ref().map(|counts| HostSummary::new(counts, run.ended)),
            program: None,
            jobs: BTreeMap::new(),
            sim_time_ns: run.ended.as_ns_f64(),
            events: run.counters.events,
            packet_hops: run.counters.packet_hops,
            seed: labels.seed,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

impl Program {
    /// Computes the results of a closed-loop replay that ran to its end.
    pub fn new(replay: &CapturedReplay) -> Program {
        let times: Vec<f64> = replay.run_times().map(Time::as_ns_f64).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let zero_latency = replay.trace().run_time_at(Time::ZERO).as_ns_f64();
        let window = replay.trace().window();
        let waits = (mean - zero_latency) * window.rows_in_all as f64 / window.rows.max(1) as f64;
        Program {
            replicas: times.len() as u64,
            run_time_ns: mean,
            run_time_max_ns: times.into_iter().fold(0.0, f64::max),
            zero_latency_ns: zero_latency,
            slowdown: 1.0 + waits / replay.trace().computed().as_ns_f64(),
            rows: window.rows,
            rows_in_all: window.rows_in_all,
            window_from_ns: window.from.as_ns_f64(),
            window_until_ns: window.until.as_ns_f64(),
        }
    }
}

impl Stats {
    /// Computes the statistics of these values.
    pub fn from_values(mut values: Vec<f64>) -> Stats {
        if values.is_empty() {
            return Stats::default();
        }
        values.sort_unstable_by(f64::total_cmp);
        let rank = |q: f64| Some(values[(q * values.len() as f64).ceil() as usize - 1]);
        Stats {
            count: values.len() as u64,
            mean: Some(values.iter().sum::<f64>() / values.len() as f64),
            p50: rank(0.5),
            p95: rank(0.95),
            p99: rank(0.99),
            p999: rank(0.999),
            max: rank(1.0),
        }
    }
}

fn background_gbps(run: &Run) -> Option<f64> {
    let bits = run.counters.background_arrived_bytes as f64 * 8.0;
    (run.counters.background_sent_bytes > 0).then(|| bits / run.ended.as_ns_f64())
}

fn unfinished(run: &Run, completed: u64) -> Option<Unfinished> {
    let messages = run.messages.len() as u64 - completed;
    (messages > 0).then(|| Unfinished { messages, why: run.ending.why_unfinished().into() })
}

/// Messages of a run that count for its figures.
struct CountedMessages<'a> {
    run: &'a Run,
    rows: std::ops::Range<usize>,
}

impl<'a> CountedMessages<'a> {
    fn new(run: &'a Run, excluded: Excluded) -> CountedMessages<'a> {
        CountedMessages { run, rows: excluded.rows(run.messages.len()) }
    }

    fn values(&self, of: impl Fn(&Message) -> bool, value: impl Fn(usize) -> Option<f64>) -> Stats {
        let rows = self.rows.clone().filter(|row| of(&self.run.messages[*row]));
        Stats::from_values(rows.filter_map(value).collect())
    }

    fn slowdown(&self, of: impl Fn(&Message) -> bool) -> Stats {
        self.values(of, |row| self.run.slowdown(row))
    }

    fn completion_ns(&self, of: impl Fn(&Message) -> bool) -> Stats {
        self.values(of, |row| self.run.outcomes[row].completion().map(Time::as_ns_f64))
    }

    fn by_kind(&self) -> BTreeMap<String, KindSummary> {
        let summary = |kind: Kind| {
            let of = |message: &Message| message.kind == kind;
            let messages = self.run.messages[self.rows.clone()].iter().filter(|message| of(message)).count();
            let slowdown = self.slowdown(of);
            let completion_ns = self.completion_ns(of);
            (kind.name().to_string(), KindSummary { messages: messages as u64, slowdown, completion_ns })
        };
        Kind::ALL.map(summary).into_iter().filter(|(_, kind)| kind.messages > 0).collect()
    }

    fn throughput_gbps(&self) -> f64 {
        let first = self.run.outcomes[self.rows.clone()].iter().map(|outcome| outcome.submitted).min();
        let finished = self.rows.clone().filter_map(|row| Some((row, self.run.outcomes[row].completed()?)));
        let (bytes, last) = finished.fold((0, Time::ZERO), |(bytes, last), (row, at)| {
            (bytes + self.run.messages[row].payload(), last.max(at))
        });
        match last.saturating_sub(first.unwrap_or(Time::ZERO)) {
            Time::ZERO => 0.0,
            time => bytes as f64 * 8.0 / time.as_ns_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let stats = Stats::from_values((1..=1000).rev().map(f64::from).collect());
        assert_eq!(stats.mean, Some(500.5));
        assert_eq!(
            [stats.p50, stats.p95, stats.p99, stats.p999, stats.max],
            [500.0, 950.0, 990.0, 999.0, 1000.0].map(Some)
        );
        assert_eq!(Stats::from_values(vec![7.0]).p999, Some(7.0));
        assert_eq!(Stats::from_values(vec![]), Stats::default());
    }
}
