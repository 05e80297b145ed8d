//! Estimates of the core model, and what they make of the run: delay, curves and intervals.

use super::estimate::Estimate;
use super::instrumented::Instrumented;
use super::machine::Machine;
use super::placed::{Marks, Placed};
use super::processes::{Member, critical};
use super::windows::{self, Curve, NEAR, ThreadWindows};
use crate::failure::Failure;
use unrack_lines::core::{CycleAccount, WindowCycles, WindowSample};
use unrack_lines::summary::Summary;
use unrack_lines::window::RecordedWindow;
use unrack_record::{Stated, Warning};

/// Latencies of far memory in a curve, on top of near memory's, in nanoseconds: from less than another socket's (about
/// 70 ns) over CXL (about 100 to 300 ns; Pond, ASPLOS 2023, section 2) to that of a fetch over a network.
const ADDED_NS: [f64; 7] = [50.0, 100.0, 200.0, 350.0, 500.0, 1000.0, 2000.0];
/// Windows from which a thread has an estimate of its own: Student's t is then a fifth above that of many. A thread with
/// fewer, which is short, has that of all windows of the run.
const OWN: usize = 8;

/// Cycles of a run, and the delays that they make.
pub(crate) struct Model {
    pub machine: Machine,
    /// Marks that windows get when they are read.
    pub marks: Marks,
    /// Curves: of the placement that is asked for, of all pages far, of shares; last the placement that is asked for at the
    /// latencies of fabrics.
    pub curves: Vec<Curve>,
    threads: Vec<ThreadWindows>,
    pub delays: Delays,
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
    /// Further cycles per instruction at each point of the curves.
    pub extra: Vec<Estimate>,
}

/// Delays of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Delays {
    /// Threads whose delays add up to the run's.
    pub threads: Vec<ThreadCycles>,
    /// Time of these threads with all memory near, in seconds, with that in the kernel.
    pub near_s: Estimate,
    /// Part of it in the kernel, in seconds.
    pub kernel_s: f64,
    /// Time of all threads of the run with all memory near, without that in the kernel, in seconds.
    pub user_s: Estimate,
    /// Time of all threads of the run in the kernel, in seconds.
    pub system_s: f64,
    /// Delay at each point of the curves, in seconds.
    pub extra_s: Vec<Estimate>,
}

impl Model {
    /// Asks the core model about all windows of a run; at `fabrics_ns`, too, for the placement that is asked for. The inner
    /// error says why there are no cycles.
    ///
    /// # Errors
    /// If a recording is damaged, or a latency out of range.
    pub(crate) fn new(
        run: &Instrumented,
        machine: Result<Machine, Warning>,
        placed: &Placed,
        fabrics_ns: &[f64],
    ) -> Result<Result<Model, Warning>, Failure> {
        let marks = placed.marks(run)?;
        let machine = match (run.too_few(), machine) {
            (None, Ok(machine)) => machine,
            (Some(why), _) | (None, Err(why)) => return Ok(Err(why)),
        };
        let curves = curves(placed, machine.near_ns, fabrics_ns);
        let threads = windows::run(run, &machine, &marks, &curves)?;
        let cycles = ThreadCycles::all(&run.summaries(), &threads);
        let decisive = curves[0].far_ns.len() - 1;
        let delays = cycles.and_then(|cycles| {
            Delays::new(&run.summaries(), &cycles, &machine, decisive).ok_or_else(no_thread)
        });
        Ok(delays.map(|delays| Model { machine, marks, curves, threads, delays }))
    }

    /// Returns the delay at a point of a curve, in seconds.
    pub(crate) fn delay_s(&self, curve: usize, point: usize) -> Estimate {
        let before: usize = self.curves[..curve].iter().map(|curve| curve.far_ns.len()).sum();
        self.delays.extra_s[before + point]
    }

    /// Returns the curve at the latencies of fabrics.
    pub(crate) fn fabrics(&self) -> &Curve {
        &self.curves[self.curves.len() - 1]
    }

    /// Returns the delay at the unloaded latency of a fabric, in seconds.
    pub(crate) fn fabric_delay_s(&self, fabric: usize) -> Estimate {
        self.delay_s(self.curves.len() - 1, fabric)
    }

    /// Returns the lane of a fabric's unloaded latency.
    pub(crate) fn fabric_lane(&self, fabric: usize) -> usize {
        let before: usize = self.curves[..self.curves.len() - 1].iter().map(|curve| curve.far_ns.len()).sum();
        NEAR + 1 + before + fabric
    }

    /// Returns the cycles of a window of a record in all lanes.
    pub(crate) fn window(&self, record: usize, window: &RecordedWindow) -> Option<&WindowCycles> {
        let thread = self.threads.iter().find(|one| (one.record, one.thread) == (record, window.thread))?;
        let index = thread.windows.binary_search_by_key(&window.start, |known| known.start).ok()?;
        Some(&thread.windows[index])
    }

    /// Returns the account of the thread with the largest part in the delay, if it has windows of its own.
    pub(crate) fn account(&self) -> Option<CycleAccount> {
        let leader = self.delays.leader();
        let own = |thread: &&ThreadWindows| (thread.record, thread.thread) == (leader.record, leader.thread);
        self.threads.iter().find(own).map(|thread| thread.account)
    }
}

/// Returns the curves of a question.
fn curves(placed: &Placed, near_ns: f64, fabrics_ns: &[f64]) -> Vec<Curve> {
    let curve =
        |(placement, pages)| Curve { placement, pages, far_ns: ADDED_NS.map(|ns| near_ns + ns).into() };
    let mut curves: Vec<Curve> = placed.all().into_iter().map(curve).collect();
    let far_ns = fabrics_ns.iter().map(|ns| near_ns + ns).collect();
    curves.push(Curve { far_ns, ..curves[0].clone() });
    curves
}

fn no_thread() -> Warning {
    Warning::new(
        "few-windows",
        "no thread has a recorded window: the program is too short; give it more to do",
    )
}

impl ThreadCycles {
    /// Returns the cycles of all threads.
    fn all(records: &[&Summary], threads: &[ThreadWindows]) -> Result<Vec<ThreadCycles>, Warning> {
        let together: Vec<WindowCycles> =
            threads.iter().flat_map(|thread| thread.windows.iter().cloned()).collect();
        let windows_of = |record: usize, thread: u32| {
            let own = threads.iter().find(|one| (one.record, one.thread) == (record, thread));
            own.map(|own| &own.windows[..]).unwrap_or_default()
        };
        let each = records.iter().enumerate().flat_map(|(record, summary)| {
            summary
                .threads
                .iter()
                .filter(|thread| thread.instructions > 0)
                .map(move |thread| (record, thread))
        });
        each.map(|(record, thread)| {
            let own = windows_of(record, thread.thread);
            ThreadCycles::estimated(record, thread.thread, thread.instructions, own, &together)
        })
        .collect()
    }

    /// Estimates the cycles of a thread from its own windows, or if they are few from those of the whole run. The first lane is
    /// near memory.
    ///
    /// # Errors
    /// If there are fewer than two windows.
    pub(crate) fn estimated(
        record: usize,
        thread: u32,
        instructions: u64,
        own: &[WindowCycles],
        together: &[WindowCycles],
    ) -> Result<ThreadCycles, Warning> {
        let windows = if own.len() >= OWN { own } else { together };
        let sample = WindowSample::new(windows);
        let few = |why: unrack_lines::core::EstimateError| Warning::new("few-windows", why.to_string());
        let near = sample.cycles_per_instruction(NEAR).map_err(few)?.into();
        let lanes = windows.first().map_or(0, |window| window.cycles.len());
        let extra = |lane| sample.extra_cycles_per_instruction(lane, NEAR).map(Estimate::from).map_err(few);
        let extra = (NEAR + 1..lanes).map(extra).collect::<Result<_, _>>()?;
        Ok(ThreadCycles { record, thread, instructions, near, extra })
    }

    /// Returns the seconds of all its instructions that take so many cycles each.
    pub(crate) fn seconds(&self, cycles: Estimate, frequency_ghz: f64) -> Estimate {
        cycles.times(self.instructions as f64 / (frequency_ghz * 1e9))
    }
}

impl Delays {
    /// Adds up the delays of the threads that the run waits for: those that take longest at the point `decisive`. `None`
    /// without a thread.
    fn new(
        records: &[&Summary],
        threads: &[ThreadCycles],
        machine: &Machine,
        decisive: usize,
    ) -> Option<Delays> {
        let frequency_ghz = machine.core.frequency_ghz;
        let kernel_s = |thread: &ThreadCycles| kernel_s(records[thread.record], thread, machine);
        let time_s = |thread: &ThreadCycles| {
            let cycles = thread.near.plus(thread.extra[decisive].value);
            thread.seconds(cycles, frequency_ghz).value + kernel_s(thread)
        };
        let longest = |record| {
            let own = threads.iter().filter(|thread| thread.record == record);
            own.max_by(|a, b| time_s(a).total_cmp(&time_s(b)))
        };
        let worst: Vec<Option<&ThreadCycles>> = (0..records.len()).map(longest).collect();
        let user_s = Estimate::sum(threads.iter().map(|thread| thread.seconds(thread.near, frequency_ghz)));
        let system_s = threads.iter().map(kernel_s).sum();
        let member = |(summary, thread): (&&Summary, &Option<&ThreadCycles>)| Member {
            pid: summary.pid,
            parent: summary.parent,
            start_ns: summary.start_ns,
            wall_ns: summary.wall_ns,
            time_s: thread.map_or(0.0, time_s),
        };
        let members: Vec<Member> = records.iter().zip(&worst).map(member).collect();
        let threads: Vec<ThreadCycles> =
            critical(&members).into_iter().filter_map(|record| worst[record].cloned()).collect();
        let kernel_s = threads.iter().map(kernel_s).sum();
        let points = threads.first()?.extra.len();
        let sum = |of: &dyn Fn(&ThreadCycles) -> Estimate| {
            Estimate::sum(threads.iter().map(|thread| thread.seconds(of(thread), frequency_ghz)))
        };
        let near_s = sum(&|thread| thread.near).plus(kernel_s);
        let extra_s = (0..points).map(|point| sum(&|thread| thread.extra[point])).collect();
        Some(Delays { near_s, kernel_s, user_s, system_s, extra_s, threads })
    }

    /// Returns the user and system time of all threads of the run with all memory near, in seconds.
    pub(crate) fn processor_s(&self) -> Estimate {
        self.user_s.plus(self.system_s)
    }

    /// Returns the thread with the largest part in the time at the greatest delay.
    pub(crate) fn leader(&self) -> &ThreadCycles {
        let cycles = |thread: &ThreadCycles| {
            let extra = thread.extra.iter().map(|extra| extra.value).fold(0.0, f64::max);
            (thread.near.value + extra) * thread.instructions as f64
        };
        let most = self.threads.iter().max_by(|a, b| cycles(a).total_cmp(&cycles(b)));
        most.expect("delays are of at least one thread")
    }
}

/// Returns a thread's part of its process's time in the kernel: system calls and new pages, by its part of the instructions.
fn kernel_s(summary: &Summary, thread: &ThreadCycles, machine: &Machine) -> f64 {
    let all: u64 = summary.threads.iter().map(|thread| thread.instructions).sum();
    let part = thread.instructions as f64 / all.max(1) as f64;
    machine.kernel_s(summary.system_calls, summary.new_pages) * part
}

/// Returns the slowdown of a program that takes `native_s`, for this delay.
pub(crate) fn slowdown(delay_s: Estimate, native_s: f64) -> Stated {
    Stated::Known(delay_s.times(1.0 / native_s).plus(1.0).interval())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::machine::tests::machine;
    use super::*;
    use unrack_lines::summary::{RecordEnding, SampleSummary};

    pub(crate) fn summary(pid: u32, parent: u32, wall_ns: u64) -> Summary {
        Summary {
            pid,
            parent,
            program: "/bin/x".into(),
            ending: RecordEnding::Exit,
            start_ns: 0,
            wall_ns,
            system_calls: 0,
            new_pages: 0,
            threads: Vec::new(),
            sample: SampleSummary { period: 1, window: 1, lead: 0, windows: 1 },
            functions: Vec::new(),
            mappings: Vec::new(),
            moved: Vec::new(),
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
        let delays = Delays::new(&[&shell, &child], &threads, &machine(), 1).unwrap();
        // 10^9 instructions at 2 GHz: half a second for each cycle.
        assert_eq!(delays.near_s.value, 1.0);
        assert_eq!(delays.processor_s().value, 1.5, "the thread that nothing waits for takes time, too");
        assert_eq!(delays.extra_s[1].value, 0.5 + 2.0);
        assert!((delays.extra_s[1].half - 0.25).abs() < 1e-12, "0.3 and 0.4 are 0.5, of half a second");
        assert_eq!((delays.leader().record, delays.leader().thread), (1, 1));
        let slowdown = slowdown(delays.extra_s[1], 5.0);
        let slowdown = slowdown.known().unwrap();
        assert_eq!((slowdown.value, slowdown.low, slowdown.high), (Some(1.5), 1.45, Some(1.55)));
    }
}
