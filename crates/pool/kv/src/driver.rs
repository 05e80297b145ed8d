//! Timed runs of YCSB's operations.
//!
//! Departure: a value is opaque to this store, so an update writes the whole value. By default, YCSB writes one of the
//! ten fields of a record (`writeallfields=false`).

use crate::{Client, Error};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, Instant};
use unrack_rpc::view::{View, ViewMut};
use unrack_workload::ycsb::{CoreWorkload, Operations, RecordKey, RecordOperation};

/// Settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct DriverSettings {
    pub workload: CoreWorkload,
    pub records: u64,
    pub value_bytes: usize,
    /// Number of threads, each with a separate connection.
    pub clients: u16,
    pub time: Duration,
    pub seed: u64,
}

/// Number and percentiles of the operations of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct OperationTimes {
    pub operation: RecordOperation,
    pub count: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct DriverResult {
    pub workload: CoreWorkload,
    pub operations_per_s: f64,
    pub times: Vec<OperationTimes>,
}

/// Writes all records to the store.
///
/// # Errors
/// If the store has no room for the records, or if it is gone.
pub fn load(client: &Client, records: u64, value_bytes: usize) -> Result<(), Error> {
    for record in 0..records {
        client.put_with(&RecordKey::for_record(record), value_bytes, |value| fill(value, record))?;
    }
    Ok(())
}

/// Runs operations for the time in the settings. Each client is a thread with a separate connection.
///
/// # Errors
/// If a call fails.
pub fn run(
    run: &DriverSettings,
    connect: impl Fn() -> Result<Client, Error> + Sync,
) -> Result<DriverResult, Error> {
    let one = |thread: u16| -> Result<(OperationHistograms, f64), Error> {
        let client = connect()?;
        let mut operations = Operations::new(run.workload, run.records, run.seed.wrapping_add(thread.into()));
        let mut timed = OperationHistograms::new();
        let begun = Instant::now();
        let mut now = begun;
        while now - begun < run.time {
            let (operation, record) = operations.draw();
            let key = RecordKey::for_record(record);
            let started = Instant::now();
            perform(&client, operation, &key, run.value_bytes, started)?;
            now = Instant::now();
            timed.histogram(operation).saturating_record((now - started).as_nanos() as u64);
        }
        let rate = timed.count() as f64 / (now - begun).as_secs_f64();
        Ok((timed, rate))
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..run.clients).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let mut timed = OperationHistograms::new();
    let mut operations_per_s = 0.0;
    for one in all {
        let (times, rate) = one?;
        timed.add(&times);
        operations_per_s += rate;
    }
    Ok(DriverResult { workload: run.workload, operations_per_s, times: timed.times() })
}

/// Performs one operation.
fn perform(
    client: &Client,
    operation: RecordOperation,
    key: &RecordKey,
    bytes: usize,
    seed: Instant,
) -> Result<(), Error> {
    let seed = seed.elapsed().as_nanos() as u64;
    match operation {
        RecordOperation::Insert | RecordOperation::Scan => {
            unreachable!("the command takes workloads that neither insert nor scan")
        }
        RecordOperation::Read => {
            std::hint::black_box(client.get(key)?.map(|value| sum(value.body())));
        }
        RecordOperation::Update => drop(client.put_with(key, bytes, |value| fill(value, seed))?),
        RecordOperation::ReadModifyWrite => {
            let modify = |value: Option<View<'_>>| {
                let mut modified = value.map_or_else(|| vec![0; bytes], |value| value.to_vec());
                if let Some(first) = modified.first_mut() {
                    *first = first.wrapping_add(1);
                }
                modified
            };
            client.update(key, modify)?;
        }
    }
    Ok(())
}

/// Writes every byte of a value.
fn fill(mut value: ViewMut<'_>, seed: u64) {
    let words = value.len() / 8;
    for word in 0..words {
        value.put(word * 8, seed ^ word as u64).expect("inside");
    }
    for byte in words * 8..value.len() {
        value.put(byte, seed as u8).expect("inside");
    }
}

/// Reads every whole word of a value, and returns their sum.
fn sum(value: View<'_>) -> u64 {
    (0..value.len() / 8).map(|word| value.get::<u64>(word * 8).expect("inside")).fold(0, u64::wrapping_add)
}

/// Histograms of each kind of operation, from 1 ns to a minute, with a precision of three digits.
struct OperationHistograms([Histogram<u64>; 3]);

const KINDS: [RecordOperation; 3] =
    [RecordOperation::Read, RecordOperation::Update, RecordOperation::ReadModifyWrite];

impl OperationHistograms {
    fn new() -> OperationHistograms {
        OperationHistograms(
            KINDS.map(|_| Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are ours")),
        )
    }

    /// Returns the histogram of one kind of operation.
    fn histogram(&mut self, operation: RecordOperation) -> &mut Histogram<u64> {
        &mut self.0[operation as usize]
    }

    fn add(&mut self, other: &OperationHistograms) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(theirs).expect("the bounds are the same");
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().map(Histogram::len).sum()
    }

    fn times(&self) -> Vec<OperationTimes> {
        let of = |(operation, ns): (RecordOperation, &Histogram<u64>)| OperationTimes {
            operation,
            count: ns.len(),
            p50_ns: ns.value_at_quantile(0.5),
            p95_ns: ns.value_at_quantile(0.95),
            p99_ns: ns.value_at_quantile(0.99),
            p999_ns: ns.value_at_quantile(0.999),
            max_ns: ns.max(),
        };
        KINDS.into_iter().zip(&self.0).filter(|(_, ns)| !ns.is_empty()).map(of).collect()
    }
}
