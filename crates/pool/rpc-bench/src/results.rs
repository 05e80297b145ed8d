//! Results, as tables and as JSON.

use crate::client::{BenchLoad, Round, histogram};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::WaitPolicy;
use unrack_units::Bytes;

/// All rounds of one load.
pub struct LoadResult {
    pub load: BenchLoad,
    calls_per_s: Vec<f64>,
    ns: Histogram<u64>,
}

/// Percentiles of the times of calls.
#[derive(Serialize)]
struct CallTimes {
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    calls: u64,
}

/// A row of the tables of calls.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    load: BenchLoad,
    calls_per_s: f64,
    #[serde(flatten)]
    times: CallTimes,
}

/// The server's use of the processor at one rate.
#[derive(Serialize)]
pub struct ProcessorUse {
    asked_per_s: u32,
    calls_per_s: f64,
    /// Share of one core that the server used.
    server_share: f64,
    #[serde(flatten)]
    times: CallTimes,
}

/// All measurements.
#[derive(Serialize)]
pub struct BenchResults {
    version: &'static str,
    memory: MemoryKind,
    waiting: String,
    calls: Vec<Row>,
    processor: Vec<ProcessorUse>,
}

impl CallTimes {
    fn new(ns: &Histogram<u64>) -> CallTimes {
        let at = |quantile| ns.value_at_quantile(quantile);
        CallTimes { p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999), calls: ns.len() }
    }
}

impl LoadResult {
    /// Returns the result of a load without any rounds.
    pub fn new(load: BenchLoad) -> LoadResult {
        LoadResult { load, calls_per_s: Vec::new(), ns: histogram() }
    }

    /// Adds the results of a round.
    pub fn add(&mut self, round: Round) {
        self.calls_per_s.push(round.calls_per_s);
        self.ns.add(&round.ns).expect("both grow as they need");
    }

    fn row(mut self) -> Row {
        self.calls_per_s.sort_by(f64::total_cmp);
        let calls_per_s = self.calls_per_s[self.calls_per_s.len() / 2];
        Row { load: self.load, calls_per_s, times: CallTimes::new(&self.ns) }
    }
}

impl fmt::Display for LoadResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BenchLoad { bytes, window, connections, .. } = self.load;
        write!(out, "{}, window {window}, connections {connections}", Bytes::new(bytes as u64))
    }
}

impl ProcessorUse {
    /// Returns the use of the processor at one rate.
    pub fn new(asked_per_s: u32, calls_per_s: f64, server_share: f64, ns: &Histogram<u64>) -> ProcessorUse {
        ProcessorUse { asked_per_s, calls_per_s, server_share, times: CallTimes::new(ns) }
    }
}

impl BenchResults {
    /// Returns the results of all loads and rates.
    pub fn new(
        memory: MemoryKind,
        waiting: WaitPolicy,
        cells: Vec<LoadResult>,
        processor: Vec<ProcessorUse>,
    ) -> BenchResults {
        let calls = cells.into_iter().map(LoadResult::row).collect();
        BenchResults {
            version: env!("CARGO_PKG_VERSION"),
            memory,
            waiting: waiting.to_string(),
            calls,
            processor,
        }
    }
}

impl fmt::Display for BenchResults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} memory, waiting: {}", self.memory, self.waiting)?;
        let columns = |out: &mut fmt::Formatter<'_>, first: [&str; 3]| {
            let [a, b, c] = first;
            writeln!(
                out,
                "\n{a:>8} {b:>7} {c:<11} {:>12} {:>11} {:>11} {:>11}",
                "calls/s", "p50 ns", "p99 ns", "p99.9 ns"
            )
        };
        columns(out, ["size", "window", ""])?;
        for row in self.calls.iter().filter(|row| row.load.connections == 1) {
            let size = Bytes::new(row.load.bytes as u64).to_string();
            let touched = if row.load.touched { "" } else { "not touched" };
            row.line(out, &size, row.load.window, touched)?;
        }
        if self.calls.iter().any(|row| row.load.connections > 1) {
            columns(out, ["connect.", "window", "queues"])?;
        }
        for row in self.calls.iter().filter(|row| row.load.connections > 1) {
            let queues = if row.load.shared { "shared" } else { "own" };
            row.line(out, &row.load.connections.to_string(), row.load.window, queues)?;
        }
        if !self.processor.is_empty() {
            writeln!(
                out,
                "\n{:>8} {:>19} {:>12} {:>11} {:>11} {:>11}",
                "asked/s", "server's processor", "calls/s", "p50 ns", "p99 ns", "p99.9 ns"
            )?;
        }
        for used in &self.processor {
            let share = format!("{:.2} %", used.server_share * 100.0);
            write!(out, "{:>8} {share:>19} {:>12.0}", used.asked_per_s, used.calls_per_s)?;
            used.times.columns(out)?;
        }
        Ok(())
    }
}

impl Row {
    fn line(&self, out: &mut fmt::Formatter<'_>, first: &str, window: u16, third: &str) -> fmt::Result {
        write!(out, "{first:>8} {window:>7} {third:<11} {:>12.0}", self.calls_per_s)?;
        self.times.columns(out)
    }
}

impl CallTimes {
    fn columns(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.calls == 0 {
            return writeln!(out, " {:>11} {:>11} {:>11}", "-", "-", "-");
        }
        writeln!(out, " {:>11} {:>11} {:>11}", self.p50_ns, self.p99_ns, self.p999_ns)
    }
}
