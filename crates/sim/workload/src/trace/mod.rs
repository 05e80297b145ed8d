//! Trace of a captured program's transfers of pages, and the replay of the trace on a rack.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`CapturedTrace`]: fetches of each thread, and the computing time of the thread between them |
//! | [`placement`] | the nodes on which the program computes, and the nodes that store its pages (DDC §4.1) |
//! | [`replay`] | the closed- or open-loop source that replays the trace, and the run time that the replay predicts |

pub mod placement;
pub mod replay;

pub use placement::Placement;
pub use replay::{CapturedReplay, ReplaySpec};

use crate::error::WorkloadError;
use unrack_units::Time;

/// Transfer of a page between a captured program and its remote memory: a row of `trace.parquet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRow {
    /// Time from the start of the captured run to the transfer.
    pub t_ns: u64,
    pub thread: u32,
    pub page: u64,
    /// Whether this is a transfer to remote memory, for which no thread waits. Otherwise it is a transfer from remote
    /// memory, for which the thread waits.
    pub write_back: bool,
    pub bytes: u32,
    /// Time that the thread waited for the transfer.
    pub wait_ns: u64,
    /// Time that the pager took since the thread's previous fetch, and that hardware with real remote memory would not
    /// take.
    pub overhead_ns: u64,
}

/// Captured transfers between the threads of a program and remote memory, reduced to the data that a replay needs.
///
/// The time of a thread between two fetches is its computing time. It is obtained from the captured times by
/// subtracting the waiting time and the overhead of the pager (`docs/decisions/0001`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedTrace {
    steps: Vec<Step>,
    /// Index of the first step of each thread, followed by the number of steps.
    threads: Vec<usize>,
    window: ReplayWindow,
    leader: Option<Leader>,
    /// Computing time of the program in the whole captured run, even if only a part of the run is replayed.
    computed: Time,
}

/// Thread whose timeline represents the timeline of the program: the thread that waited longest for remote memory.
///
/// If a thread waited for another thread, this time cannot be distinguished from its computing time. Therefore a thread
/// that slept while other threads fetched pages seems to have computed all the time, on any network. The other threads
/// are assumed to have waited for the thread that waited longest for remote memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leader {
    thread: u32,
    /// Time from the last fetch of this thread to the end of the window.
    tail: Time,
}

/// Transfer of a page, as a step in the timeline of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Time from the completion of the thread's previous fetch to this transfer. For a thread's first transfer, it is
    /// the time from the start of the thread.
    pub after: Time,
    /// Time from the start of the window to this transfer in the captured run.
    pub captured: Time,
    pub page: u64,
    pub bytes: u32,
    pub write_back: bool,
}

/// Part of a captured run that is replayed: the transfers between two times of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayWindow {
    pub from: Time,
    pub until: Time,
    /// Number of transfers in the window. The field after it is the number of transfers in the whole captured run.
    pub rows: u64,
    pub rows_in_all: u64,
}

impl CapturedTrace {
    /// Creates the trace of the whole captured run, whose duration is `run`. The rows must be sorted by time.
    ///
    /// # Errors
    /// If the rows are not sorted, or a value in a row is out of bounds.
    pub fn new(rows: &[TraceRow], run: Time) -> Result<CapturedTrace, WorkloadError> {
        check(rows)?;
        let end = rows.last().map_or(Time::ZERO, |row| ns(row.t_ns + row.wait_ns));
        let whole = cut(rows, rows.len() as u64, Time::ZERO, run.max(end));
        Ok(CapturedTrace { computed: whole.run_time_at(Time::ZERO), ..whole })
    }

    /// Creates the trace of the middle part of the captured run, with at most `limit` transfers. The numbers of
    /// transfers before and after this part are equal, so that neither the start-up nor the end of the program has an
    /// effect. If the run has no more than `limit` transfers, the trace contains the whole run.
    ///
    /// # Errors
    /// If the rows are not sorted, a value in a row is out of bounds, or `limit` is 0.
    pub fn middle(rows: &[TraceRow], run: Time, limit: u64) -> Result<CapturedTrace, WorkloadError> {
        if limit == 0 {
            return Err(WorkloadError::new("workload.messages", "is at least one transfer per replica", 0));
        }
        if rows.len() as u64 <= limit {
            return CapturedTrace::new(rows, run);
        }
        let computed = CapturedTrace::new(rows, run)?.computed;
        let skip = (rows.len() - limit as usize) / 2;
        let kept = &rows[skip..skip + limit as usize];
        let middle = cut(kept, rows.len() as u64, ns(kept[0].t_ns), ns(rows[skip + limit as usize].t_ns));
        Ok(CapturedTrace { computed, ..middle })
    }

    /// Returns the trace of the same program with shorter computing times, as in a native run of the duration `native`.
    /// The reason is that the computing time between captured fetches also includes costs of paging other than waits,
    /// such as cold caches and other work of the machine.
    pub fn at_native_pace(mut self, native: Time) -> CapturedTrace {
        if native >= self.computed {
            return self; // nothing on top
        }
        let computed = u128::from(self.computed.as_ps());
        let pace = |time: Time| {
            Time::from_ps((u128::from(time.as_ps()) * u128::from(native.as_ps()) / computed) as u64)
        };
        self.steps.iter_mut().for_each(|step| step.after = pace(step.after));
        self.leader = self.leader.map(|leader| Leader { tail: pace(leader.tail), ..leader });
        self.computed = native;
        self
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u32 {
        self.threads.len() as u32 - 1
    }

    /// Returns the steps of a thread, in order of time.
    pub fn steps(&self, thread: u32) -> &[Step] {
        &self.steps[self.threads[thread as usize]..self.threads[thread as usize + 1]]
    }

    /// Returns the number of transfers of all threads.
    pub fn len(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Returns the size of the largest transfer, in bytes.
    pub fn largest(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.bytes)).max().unwrap_or(0)
    }

    /// Returns whether there are no transfers.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the part of the run that is replayed.
    pub fn window(&self) -> ReplayWindow {
        self.window
    }

    /// Returns the time from the last fetch of `thread` to the end of the window, if the timeline of `thread` represents
    /// that of the program. This is the case for the thread that waited longest for remote memory. Returns `None` for
    /// other threads.
    pub fn tail(&self, thread: u32) -> Option<Time> {
        self.leader.filter(|leader| leader.thread == thread).map(|leader| leader.tail)
    }

    /// Returns the run time of the program if every fetch takes `latency`. It is computed without a replay. With a
    /// latency of zero, it is the computing time of the program.
    pub fn run_time_at(&self, latency: Time) -> Time {
        let Some(leader) = self.leader else { return self.length() };
        let fetches = self.steps(leader.thread).iter().filter(|step| !step.write_back);
        fetches.fold(leader.tail, |time, step| time + step.after + latency)
    }

    /// Returns the computing time of the program in the whole captured run, even if only a part of the run is replayed.
    pub fn computed(&self) -> Time {
        self.computed
    }

    /// Returns whether no thread of the program waited for remote memory.
    pub fn only_computes(&self) -> bool {
        self.leader.is_none()
    }

    /// Returns the duration of the window in the captured run.
    fn length(&self) -> Time {
        self.window.until - self.window.from
    }
}

fn ns(ns: u64) -> Time {
    Time::from_ps(ns.saturating_mul(1_000))
}

/// Maximum duration of a captured run (60 days). With longer runs, sums of times might exceed the range of picoseconds.
const LONGEST_NS: u64 = 60 * 24 * 3600 * 1_000_000_000;

fn check(rows: &[TraceRow]) -> Result<(), WorkloadError> {
    let refuse = |rule, value: String| Err(WorkloadError::new("workload.file", rule, value));
    if let Some(two) = rows.windows(2).find(|two| two[0].t_ns > two[1].t_ns) {
        return refuse("is sorted by time", format!("{} ns after {} ns", two[1].t_ns, two[0].t_ns));
    }
    if let Some(row) = rows.iter().find(|row| row.bytes == 0) {
        return refuse("has transfers of at least 1 byte", format!("0 at {} ns", row.t_ns));
    }
    let long =
        |row: &&TraceRow| row.t_ns > LONGEST_NS || row.wait_ns > LONGEST_NS || row.overhead_ns > LONGEST_NS;
    if let Some(row) = rows.iter().find(long) {
        return refuse("has times below 60 days", format!("{} ns", row.t_ns));
    }
    match rows.iter().map(|row| row.thread).max() {
        Some(thread) if thread as usize >= rows.len().max(MOST_IDLE_THREADS) => {
            refuse("numbers its threads from 0 without gaps", format!("thread {thread}"))
        }
        _ => Ok(()),
    }
}

/// Maximum number of threads that have no transfer in a whole captured run. In a window of the run, any number of
/// threads may have no transfer.
const MOST_IDLE_THREADS: usize = 1 << 16;

/// Returns the trace of one window of a captured run, whose rows are given.
fn cut(rows: &[TraceRow], rows_in_all: u64, from: Time, until: Time) -> CapturedTrace {
    let count = rows.iter().map(|row| row.thread as usize + 1).max().unwrap_or(0);
    let mut threads = vec![0; count + 1];
    rows.iter().for_each(|row| threads[row.thread as usize + 1] += 1);
    (0..count).for_each(|thread| threads[thread + 1] += threads[thread]);
    let mut by_thread: Vec<&TraceRow> = rows.iter().collect();
    by_thread.sort_by_key(|row| row.thread); // stable: by time within a thread
    let steps = threads.windows(2).flat_map(|range| timeline(&by_thread[range[0]..range[1]], from)).collect();
    let leader = leader(rows, count, until);
    let window = ReplayWindow { from, until, rows: rows.len() as u64, rows_in_all };
    CapturedTrace { steps, threads, window, leader, computed: Time::ZERO }
}

fn leader(rows: &[TraceRow], threads: usize, until: Time) -> Option<Leader> {
    let mut held_up = vec![(0u64, Time::ZERO); threads];
    for row in rows.iter().filter(|row| !row.write_back) {
        let (ns_in_all, end) = &mut held_up[row.thread as usize];
        *ns_in_all = ns_in_all.saturating_add(row.wait_ns + row.overhead_ns);
        *end = ns(row.t_ns + row.wait_ns);
    }
    let fetching = (0..).zip(held_up).filter(|(_, (_, end))| *end > Time::ZERO);
    let (thread, (_, end)) = fetching.max_by_key(|(_, (ns_in_all, _))| *ns_in_all)?;
    Some(Leader { thread, tail: until.saturating_sub(end) })
}

/// Returns the steps of one thread, given the thread's rows.
fn timeline(rows: &[&TraceRow], from: Time) -> Vec<Step> {
    let mut resumed = from;
    let mut steps: Vec<Step> = Vec::with_capacity(rows.len());
    for row in rows {
        let own = if row.write_back { Time::ZERO } else { ns(row.overhead_ns) };
        let after = ns(row.t_ns).saturating_sub(resumed).saturating_sub(own);
        let captured = ns(row.t_ns) - from;
        steps.push(Step { after, captured, page: row.page, bytes: row.bytes, write_back: row.write_back });
        if !row.write_back {
            resumed = ns(row.t_ns + row.wait_ns);
        }
    }
    keep_order(&mut steps);
    steps
}

/// Limits the time of a write-back to the time of the fetch that follows it. Without this limit, the order of the two
/// might change, because the overhead that was subtracted from the time of the fetch may also have delayed the
/// write-back.
fn keep_order(steps: &mut [Step]) {
    let mut limit = Time::MAX;
    for step in steps.iter_mut().rev() {
        if !step.write_back {
            limit = Time::MAX;
        }
        step.after = step.after.min(limit);
        if !step.write_back {
            limit = step.after;
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
