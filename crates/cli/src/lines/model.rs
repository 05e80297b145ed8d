//! Estimates of the core model, and what they make of the run: delay, curve and intervals.

use super::processes::{Member, critical};
use unrack_lines::summary::Summary;
use unrack_record::{CurvePoint, Interval, Stated, Warning};

/// Latencies of far memory in the curve, in nanoseconds: from near memory of another socket over CXL (about 200 to 400 ns,
/// Pond, ASPLOS 2023, section 2) to a page's fetch.
pub(crate) const LATENCIES_NS: [f64; 8] = [150.0, 200.0, 300.0, 500.0, 750.0, 1000.0, 2000.0, 4000.0];

/// Number with a half width: the interval is as wide to both sides.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Estimate {
    pub value: f64,
    /// Half of the 95 % interval.
    pub half: f64,
}

/// Cycles of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThreadCycles {
    /// Index of the program's record.
    pub record: usize,
    /// Number of the thread in its process.
    pub thread: u32,
    pub instructions: u64,
    /// Cycles per instruction with all memory near.
    pub near: Estimate,
    /// Further cycles per instruction at each latency of the curve.
    pub extra: Vec<Estimate>,
}

impl ThreadCycles {
    /// Returns the seconds of all its instructions that take so many cycles each.
    fn seconds(&self, cycles: Estimate, frequency_ghz: f64) -> Estimate {
        let scale = self.instructions as f64 / (frequency_ghz * 1e9);
        Estimate { value: cycles.value * scale, half: cycles.half * scale }
    }

    fn most_extra(&self) -> f64 {
        self.extra.last().map_or(0.0, |extra| extra.value)
    }
}

/// Delays of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delays {
    /// Threads whose delays add up to the run's.
    pub threads: Vec<ThreadCycles>,
    /// Time of these threads with all memory near, in seconds.
    pub near_s: Estimate,
    /// Delay at each latency of the curve, in seconds.
    pub extra_s: Vec<Estimate>,
}

impl Delays {
    /// Adds up the delays of the threads that the run waits for. `None` without a thread.
    pub(crate) fn new(records: &[&Summary], threads: &[ThreadCycles], frequency_ghz: f64) -> Option<Delays> {
        let worst: Vec<Option<&ThreadCycles>> = (0..records.len())
            .map(|record| {
                let own = threads.iter().filter(|thread| thread.record == record);
                own.max_by(|a, b| {
                    let delay = |thread: &ThreadCycles| thread.most_extra() * thread.instructions as f64;
                    delay(a).total_cmp(&delay(b))
                })
            })
            .collect();
        let delay = |thread: &ThreadCycles| {
            thread.extra.last().map_or(0.0, |extra| thread.seconds(*extra, frequency_ghz).value)
        };
        let members: Vec<Member> = records
            .iter()
            .zip(&worst)
            .map(|(summary, thread)| Member {
                pid: summary.pid,
                parent: summary.parent,
                start_ns: summary.start_ns,
                wall_ns: summary.wall_ns,
                delay_s: thread.map_or(0.0, delay),
            })
            .collect();
        let threads: Vec<ThreadCycles> =
            critical(&members).into_iter().filter_map(|record| worst[record].cloned()).collect();
        let points = threads.first()?.extra.len();
        let sum = |of: &dyn Fn(&ThreadCycles) -> Estimate| {
            Estimate::sum(threads.iter().map(|thread| thread.seconds(of(thread), frequency_ghz)))
        };
        let near_s = sum(&|thread| thread.near);
        let extra_s = (0..points).map(|point| sum(&|thread| thread.extra[point])).collect();
        Some(Delays { near_s, extra_s, threads })
    }

    /// Returns the thread with the largest part in the delay.
    pub(crate) fn leader(&self) -> &ThreadCycles {
        let cycles =
            |thread: &ThreadCycles| (thread.near.value + thread.most_extra()) * thread.instructions as f64;
        let most = self.threads.iter().max_by(|a, b| cycles(a).total_cmp(&cycles(b)));
        most.expect("delays are of at least one thread")
    }

    /// Returns the slowdown at each latency, for a program that natively takes `native_s`.
    pub(crate) fn curve(&self, latencies_ns: &[f64], native_s: f64) -> Vec<CurvePoint> {
        let point = |(latency_ns, extra): (&f64, &Estimate)| CurvePoint {
            latency_ns: *latency_ns,
            slowdown: Stated::Known(extra.over(native_s).plus(1.0).interval()),
        };
        latencies_ns.iter().zip(&self.extra_s).map(point).collect()
    }
}

impl Estimate {
    /// Adds up independent estimates.
    fn sum(all: impl Iterator<Item = Estimate>) -> Estimate {
        let add = |sum: Estimate, one: Estimate| Estimate {
            value: sum.value + one.value,
            half: sum.half.hypot(one.half),
        };
        all.fold(Estimate::default(), add)
    }

    fn over(self, by: f64) -> Estimate {
        Estimate { value: self.value / by, half: self.half / by }
    }

    fn plus(self, value: f64) -> Estimate {
        Estimate { value: self.value + value, ..self }
    }

    /// Returns the 95 % interval.
    pub(crate) fn interval(self) -> Interval {
        let Estimate { value, half } = self;
        Interval { value: Some(value), low: value - half, high: Some(value + half) }
    }
}

/// Returns the cycles of all threads, or why there are none.
pub(crate) fn cycles() -> Result<Vec<ThreadCycles>, Warning> {
    let text = "this version has no model of caches and core yet: cycles and slowdowns are not computed";
    Err(Warning::new("no-core-model", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_lines::summary::{Ending, SampleSummary};

    fn summary(pid: u32, parent: u32, wall_ns: u64) -> Summary {
        Summary {
            pid,
            parent,
            program: "/bin/x".into(),
            ending: Ending::Exit,
            start_ns: 0,
            wall_ns,
            system_calls: 0,
            new_pages: 0,
            threads: Vec::new(),
            sample: SampleSummary { period: 1, window: 1, lead: 0, windows: 1 },
            functions: Vec::new(),
            mappings: Vec::new(),
            left: Vec::new(),
            error: None,
        }
    }

    fn thread(record: usize, thread: u32, extra: f64, half: f64) -> ThreadCycles {
        let near = Estimate { value: 1.0, half: 0.0 };
        let extra = vec![Estimate { value: extra / 2.0, half }, Estimate { value: extra, half }];
        ThreadCycles { record, thread, instructions: 1_000_000_000, near, extra }
    }

    #[test]
    fn the_slowdown_is_the_delay_of_the_slowest_threads_over_native_time() {
        let (shell, child) = (summary(10, 1, 100), summary(11, 10, 50));
        let threads = [thread(0, 0, 1.0, 0.3), thread(1, 0, 2.0, 0.4), thread(1, 1, 4.0, 0.4)];
        let delays = Delays::new(&[&shell, &child], &threads, 2.0).unwrap();
        // 10^9 instructions at 2 GHz: half a second for each cycle.
        assert_eq!(delays.near_s.value, 1.0);
        assert_eq!(delays.extra_s[1].value, 0.5 + 2.0);
        assert!((delays.extra_s[1].half - 0.25).abs() < 1e-12, "0.3 and 0.4 are 0.5, of half a second");
        assert_eq!((delays.leader().record, delays.leader().thread), (1, 1));
        let curve = delays.curve(&[200.0, 400.0], 5.0);
        let slowdown = curve[1].slowdown.known().unwrap();
        assert_eq!((slowdown.value, slowdown.low, slowdown.high), (Some(1.5), 1.45, Some(1.55)));
    }
}
