//! Cache lines that a program requests from remote memory, and the replay of these requests on a rack.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`LineTrace`]: requests in the sampled windows of each thread, and the requests on which each of them depends |
//! | [`replay`] | the closed-loop source that replays the requests |
//!
//! A request is for one line of 64 B. A page fault stops its thread, whereas cache misses overlap: a request is issued
//! when the requests on which it depends are complete, while other requests are still in flight.

pub mod replay;

pub use replay::LineReplay;

use crate::error::WorkloadError;
use unrack_units::Time;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// Maximum time between two requests of a sampled window: one second. In real windows this time is far shorter, because
/// a window of some ten thousand instructions takes microseconds.
const LONGEST_GAP: Time = Time::from_us(1_000_000);

/// Event for which a request, or the end of a window, waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependence {
    /// Index of the request in the window that must complete first. `None` for the start of the window.
    pub after: Option<u32>,
    /// Computing time of the core between this event and the next request or, if the window ends first, until the end of the window.
    pub gap: Time,
}

/// Request for one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMessage {
    pub when: Dependence,
    pub address: u64,
    /// Whether this is a write-back: a modified line that is sent to memory. No request waits for a write-back.
    pub is_write_back: bool,
}

/// Requests in a sampled window of one thread. Each request comes after the requests on which it depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWindow {
    pub requests: Vec<LineMessage>,
    /// Event at which the window ends. The thread's next window starts at this time.
    pub end: Dependence,
}

/// Windows of a program, grouped by thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTrace {
    windows: Vec<CheckedWindow>,
    /// Index of the first window of each thread, followed by the number of windows.
    threads: Vec<usize>,
    /// Requests of all windows, in the order of windows.
    requests: Vec<LineMessage>,
}

/// Sampled window of a trace. Its requests are a range of the requests of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CheckedWindow {
    /// Range of the window's requests among the requests of the trace.
    range: std::ops::Range<usize>,
    end: Dependence,
    /// Indices of the requests in the window, in the order of the events for which they wait. The requests that wait
    /// for the start of the window come first.
    dependents: Vec<u32>,
    /// For each event, the index in `dependents` of the first request that waits for this event. The first event is the
    /// start of the window, and the others are the requests of the window in order. The last element is the number of
    /// all dependents.
    starts: Vec<u32>,
}

/// Position of a request in a replayed trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePlace {
    /// Replica of the program that issued the request, which is the position of its compute blade in the order of
    /// compute blades.
    pub replica: u32,
    /// Number of the thread.
    pub thread: u32,
    /// Number of the window, counted over all threads.
    pub window: u32,
    /// Index of the request in the window.
    pub request: u32,
}

impl LineTrace {
    /// Creates the trace of a program from the windows of each of its threads.
    ///
    /// # Errors
    /// If a request waits for a later request or for a write-back, or a computing time is longer than a second.
    pub fn new(threads: &[Vec<LineWindow>]) -> Result<LineTrace, WorkloadError> {
        let mut trace = LineTrace { windows: Vec::new(), threads: vec![0], requests: Vec::new() };
        for window in threads.iter().flatten() {
            check(window)?;
            let first = trace.requests.len();
            trace.requests.extend(&window.requests);
            trace.windows.push(CheckedWindow::new(window, first));
        }
        let mut before = 0;
        for windows in threads {
            before += windows.len();
            trace.threads.push(before);
        }
        Ok(trace)
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u32 {
        self.threads.len() as u32 - 1
    }

    /// Returns the number of requests in all windows.
    pub fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the number of requests in a window.
    pub fn requests_in(&self, window: u32) -> usize {
        self.windows[window as usize].range.len()
    }

    /// Returns the position of a request, given the tag of its message.
    pub fn place(&self, tag: u32) -> LinePlace {
        let (replica, request) = (tag as usize / self.requests.len(), tag as usize % self.requests.len());
        let window = self.windows.partition_point(|window| window.range.end <= request);
        let thread = self.threads.partition_point(|first| *first <= window) - 1;
        LinePlace {
            replica: replica as u32,
            thread: thread as u32,
            window: window as u32,
            request: (request - self.windows[window].range.start) as u32,
        }
    }

    /// Returns the duration of a window if each of its reads takes `latency`.
    pub fn window_time_at(&self, window: u32, latency: Time) -> Time {
        let window = &self.windows[window as usize];
        let mut completions: Vec<Time> = Vec::with_capacity(window.range.len());
        let at = |completions: &[Time], when: Dependence| {
            when.after.map_or(Time::ZERO, |after| completions[after as usize]) + when.gap
        };
        for request in &self.requests[window.range.clone()] {
            completions.push(at(&completions, request.when) + latency);
        }
        at(&completions, window.end)
    }
}

impl CheckedWindow {
    fn new(window: &LineWindow, first: usize) -> CheckedWindow {
        let key = |request: &LineMessage| request.when.after.map_or(0, |after| after as usize + 1);
        let mut dependents: Vec<u32> = (0..window.requests.len() as u32).collect();
        dependents.sort_by_key(|index| key(&window.requests[*index as usize]));
        let before = |wanted: usize| {
            dependents.partition_point(|index| key(&window.requests[*index as usize]) < wanted) as u32
        };
        let starts = (0..=window.requests.len() + 1).map(before).collect();
        CheckedWindow { range: first..first + window.requests.len(), end: window.end, dependents, starts }
    }

    /// Returns the requests that wait for the completion of `request`. If it is `None`, returns those that wait for the
    /// start of the window.
    fn waiting_for(&self, request: Option<u32>) -> &[u32] {
        let slot = request.map_or(0, |request| request as usize + 1);
        &self.dependents[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }
}

fn check(window: &LineWindow) -> Result<(), WorkloadError> {
    let refuse = |rule, value: String| Err(WorkloadError::new("workload.lines", rule, value));
    let whens = (0..).zip(window.requests.iter().map(|request| request.when));
    for (index, when) in whens.chain([(window.requests.len(), window.end)]) {
        if when.gap > LONGEST_GAP {
            return refuse("has gaps of at most a second", format!("{} before request {index}", when.gap));
        }
        let Some(after) = when.after.map(|after| after as usize) else { continue };
        if after >= index {
            return refuse("has requests that wait for earlier ones", format!("{index} for {after}"));
        }
        if window.requests[after].is_write_back {
            return refuse("has requests that wait for reads only", format!("{index} for {after}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
