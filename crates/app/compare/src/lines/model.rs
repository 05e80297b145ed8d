//! Estimates of the core model for a run: delay, curves and intervals.

use super::estimate::SymmetricEstimate;
use super::instrumented::Instrumented;
use super::machine::MachineModel;
use super::placed::{PlacementSet, RecordMarks};
use super::processes::{ProcessMember, critical};
use super::threads::{ThreadCycles, hidden};
use super::windows::{self, Curve, NEAR, ThreadWindows};
use crate::error::Error;
use unrack_lines::core::{CycleAccount, WindowCycles};
use unrack_lines::summary::Summary;
use unrack_lines::window::RecordedWindow;
use unrack_record::Warning;

/// Latencies in a curve that remote memory has in addition to local memory, in nanoseconds. They range from less than that of another
/// socket (about 70 ns), over CXL (about 100 to 300 ns; Pond, ASPLOS 2023, section 2), to that of a fetch over a network.
const ADDED_NS: [f64; 7] = [50.0, 100.0, 200.0, 350.0, 500.0, 1000.0, 2000.0];

/// Cycles of a run, and the delays that follow from them.
pub(crate) struct CyclesModel {
    pub machine: MachineModel,
    /// Marks that are set on recorded windows when they are read.
    pub marks: RecordMarks,
    /// Curves in this order: the requested placement, all pages remote, the shares of local memory, and last the requested placement at the
    /// latencies of fabrics.
    pub curves: Vec<Curve>,
    threads: Vec<ThreadWindows>,
    /// Cycles of all threads.
    pub cycles: Vec<ThreadCycles>,
    pub delays: ModelDelays,
}

/// Delays of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelDelays {
    /// Threads whose delays add up to the delay of the run.
    pub threads: Vec<ThreadCycles>,
    /// Time of `threads` with all memory local, including their time in the kernel, in seconds.
    pub near_s: SymmetricEstimate,
    /// Part of `near_s` that is in the kernel, in seconds.
    pub kernel_s: f64,
    /// Time of all threads of the run with all memory local, without their time in the kernel, in seconds.
    pub user_s: SymmetricEstimate,
    /// Time of all threads of the run in the kernel, in seconds.
    pub system_s: f64,
    /// Delay at each point of the curves, in seconds.
    pub extra_s: Vec<SymmetricEstimate>,
}

impl CyclesModel {
    /// Runs the core model on all recorded windows of a run, for all placements, and for the requested placement also at the latencies
    /// `fabrics_ns`. The inner error is the reason why there are no cycles.
    ///
    /// # Errors
    /// If a recording is damaged, or a latency is out of range.
    pub(crate) fn new(
        run: &Instrumented,
        machine: Result<MachineModel, Warning>,
        placed: &PlacementSet,
        fabrics_ns: &[f64],
    ) -> Result<Result<CyclesModel, Warning>, Error> {
        let marks = placed.marks(run)?;
        let machine = match (run.too_few(), machine) {
            (None, Ok(machine)) => machine,
            (Some(why), _) | (None, Err(why)) => return Ok(Err(why)),
        };
        let curves = curves(placed, machine.near_ns, fabrics_ns);
        let threads = windows::run(run, &machine, &marks, &curves)?;
        let cycles = ThreadCycles::all(&run.summaries(), &threads);
        let decisive = curves[0].far_ns.len() - 1;
        let concluded = cycles.and_then(|cycles| {
            let delays =
                ModelDelays::new(&run.summaries(), &cycles, &machine, decisive).ok_or_else(no_thread)?;
            let added_ns = curves[0].far_ns[decisive] - machine.near_ns;
            match hidden(&run.summaries(), &cycles, &machine, (decisive, added_ns), &delays) {
                Some(why) => Err(why),
                None => Ok((cycles, delays)),
            }
        });
        Ok(concluded.map(|(cycles, delays)| CyclesModel { machine, marks, curves, threads, cycles, delays }))
    }

    /// Returns the recorded windows of a thread; empty if the thread has none.
    pub(crate) fn windows_of(&self, record: usize, thread: u32) -> &[WindowCycles] {
        let own = self.threads.iter().find(|one| (one.record, one.thread) == (record, thread));
        own.map(|own| &own.windows[..]).unwrap_or_default()
    }

    /// Returns the delay at a point of a curve, in seconds.
    pub(crate) fn delay_s(&self, curve: usize, point: usize) -> SymmetricEstimate {
        let before: usize = self.curves[..curve].iter().map(|curve| curve.far_ns.len()).sum();
        self.delays.extra_s[before + point]
    }

    /// Returns the curve at the latencies of fabrics.
    pub(crate) fn fabrics(&self) -> &Curve {
        &self.curves[self.curves.len() - 1]
    }

    /// Returns the delay at the unloaded latency of a fabric, in seconds.
    pub(crate) fn fabric_delay_s(&self, fabric: usize) -> SymmetricEstimate {
        self.delay_s(self.curves.len() - 1, fabric)
    }

    /// Returns the index of the lane (memory configuration of the core model) that has the unloaded latency of a fabric.
    pub(crate) fn fabric_lane(&self, fabric: usize) -> usize {
        let before: usize = self.curves[..self.curves.len() - 1].iter().map(|curve| curve.far_ns.len()).sum();
        NEAR + 1 + before + fabric
    }

    /// Returns the cycles of a recorded window in all lanes; `None` if the window is unknown.
    pub(crate) fn window(&self, record: usize, window: &RecordedWindow) -> Option<&WindowCycles> {
        let windows = self.windows_of(record, window.thread);
        let index = windows.binary_search_by_key(&window.start, |known| known.start).ok()?;
        Some(&windows[index])
    }

    /// Returns the cycle account of the thread with the largest part in the delay; `None` if that thread has no recorded windows.
    pub(crate) fn account(&self) -> Option<CycleAccount> {
        let leader = self.delays.leader();
        let own = |thread: &&ThreadWindows| (thread.record, thread.thread) == (leader.record, leader.thread);
        self.threads.iter().find(own).map(|thread| thread.account)
    }
}

/// Returns the curves of a question.
fn curves(placed: &PlacementSet, near_ns: f64, fabrics_ns: &[f64]) -> Vec<Curve> {
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

impl ModelDelays {
    /// Adds up the delays of the programs that the run waits for, which are those that take longest at the point `decisive` of the curves.
    /// The time of a program is that of its longest thread; with remote memory, this may be another thread than without. `None` if there is
    /// no thread.
    fn new(
        records: &[&Summary],
        threads: &[ThreadCycles],
        machine: &MachineModel,
        decisive: usize,
    ) -> Option<ModelDelays> {
        let time_s = |thread: &ThreadCycles| thread.far_s(records, machine, decisive).value;
        let own = |record| threads.iter().filter(move |thread| thread.record == record);
        let longest = |record| own(record).max_by(|a, b| time_s(a).total_cmp(&time_s(b)));
        let worst: Vec<Option<&ThreadCycles>> = (0..records.len()).map(longest).collect();
        let user_s = SymmetricEstimate::sum(threads.iter().map(|thread| thread.user_s(machine)));
        let system_s = threads.iter().map(|thread| thread.kernel_s(records, machine)).sum();
        let member = |(summary, thread): (&&Summary, &Option<&ThreadCycles>)| ProcessMember {
            pid: summary.pid,
            parent: summary.parent,
            start_ns: summary.start_ns,
            wall_ns: summary.wall_ns,
            time_s: thread.map_or(0.0, time_s),
        };
        let members: Vec<ProcessMember> = records.iter().zip(&worst).map(member).collect();
        let critical = critical(&members);
        let leaders: Vec<ThreadCycles> =
            critical.iter().filter_map(|record| worst[*record].cloned()).collect();
        let points = leaders.first()?.extra.len();
        let near = |record: &usize| {
            let time_s = |thread: &&ThreadCycles| thread.near_s(records, machine).value;
            own(*record).max_by(|a, b| time_s(a).total_cmp(&time_s(b)))
        };
        let near: Vec<&ThreadCycles> = critical.iter().filter_map(near).collect();
        let kernel_s = near.iter().map(|thread| thread.kernel_s(records, machine)).sum();
        let near_s = SymmetricEstimate::sum(near.iter().map(|thread| thread.near_s(records, machine)));
        let delay = |point: usize| {
            let each = near.iter().map(|near| delay_s(records, near, own(near.record), machine, point));
            SymmetricEstimate::sum(each)
        };
        let extra_s = (0..points).map(delay).collect();
        Some(ModelDelays { near_s, kernel_s, user_s, system_s, extra_s, threads: leaders })
    }

    #[cfg(test)]
    pub(super) fn of(records: &[&Summary], threads: &[ThreadCycles], machine: &MachineModel) -> ModelDelays {
        ModelDelays::new(records, threads, machine, 0).unwrap()
    }

    /// Returns the processor time, user and system, of all threads of the run with all memory local, in seconds.
    pub(crate) fn processor_s(&self) -> SymmetricEstimate {
        self.user_s.plus(self.system_s)
    }

    /// Returns the thread with the largest part in the run time at the greatest delay.
    pub(crate) fn leader(&self) -> &ThreadCycles {
        let cycles = |thread: &ThreadCycles| {
            let extra = thread.extra.iter().map(|extra| extra.value).fold(0.0, f64::max);
            (thread.near.value + extra) * thread.instructions as f64
        };
        let most = self.threads.iter().max_by(|a, b| cycles(a).total_cmp(&cycles(b)));
        most.expect("delays are of at least one thread")
    }
}

/// Returns the delay of one program at a point of the curves, in seconds: the time of the thread that is longest at that point, minus the
/// time of the thread that is longest with all memory local.
fn delay_s<'a>(
    records: &[&Summary],
    near: &ThreadCycles,
    own: impl Iterator<Item = &'a ThreadCycles>,
    machine: &MachineModel,
    point: usize,
) -> SymmetricEstimate {
    let time_s = |thread: &ThreadCycles| thread.far_s(records, machine, point);
    let longest = own.max_by(|a, b| time_s(a).value.total_cmp(&time_s(b).value)).unwrap_or(near);
    if longest.thread == near.thread {
        return near.seconds(near.extra[point], machine);
    }
    let (far_s, near_s) = (time_s(longest), near.near_s(records, machine));
    SymmetricEstimate { value: far_s.value - near_s.value, half: far_s.half.hypot(near_s.half) }
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
            sample: SampleSummary { window: 1, lead: 0, windows: 1 },
            functions: Vec::new(),
            mappings: Vec::new(),
            moved: Vec::new(),
            left: Vec::new(),
            error: None,
        }
    }

    fn thread(record: usize, thread: u32, extra: f64, half: f64) -> ThreadCycles {
        let near = SymmetricEstimate { value: 1.0, half: 0.0 };
        let extra =
            vec![SymmetricEstimate { value: extra / 2.0, half }, SymmetricEstimate { value: extra, half }];
        ThreadCycles { record, thread, instructions: 1_000_000_000, misses: 0, windows: 100, near, extra }
    }

    /// A thread that computes for long hides the delay of a thread that waits for memory, until the waiting thread takes longer.
    #[test]
    fn a_delay_begins_where_the_thread_that_waits_is_the_longest() {
        let summary = summary(10, 1, 100);
        let adds = ThreadCycles { instructions: 4_000_000_000, ..thread(0, 0, 0.0, 0.0) };
        let threads = [adds, thread(0, 1, 10.0, 0.2)];
        let delays = ModelDelays::new(&[&summary], &threads, &machine(), 1).unwrap();
        // 2 s of additions; half a second with all memory local, and 3 and 5.5 s with remote memory.
        assert_eq!((delays.near_s.value, delays.leader().thread), (2.0, 1));
        let extra: Vec<f64> = delays.extra_s.iter().map(|extra| extra.value).collect();
        assert_eq!(extra, [1.0, 3.5]);
        let short = [threads[0].clone(), thread(0, 1, 2.0, 0.2)];
        let delays = ModelDelays::new(&[&summary], &short, &machine(), 1).unwrap();
        assert_eq!(delays.extra_s[1].value, 0.0, "1.5 s are within the 2");
    }

    #[test]
    fn delays_are_those_of_the_slowest_threads() {
        let (shell, child) = (summary(10, 1, 100), summary(11, 10, 50));
        let threads = [thread(0, 0, 1.0, 0.3), thread(1, 0, 2.0, 0.4), thread(1, 1, 4.0, 0.4)];
        let delays = ModelDelays::new(&[&shell, &child], &threads, &machine(), 1).unwrap();
        // 10^9 instructions at 2 GHz: half a second for each cycle.
        assert_eq!(delays.near_s.value, 1.0);
        assert_eq!(delays.processor_s().value, 1.5, "the thread that nothing waits for takes time, too");
        assert_eq!(delays.extra_s[1].value, 0.5 + 2.0);
        assert!((delays.extra_s[1].half - 0.25).abs() < 1e-12, "0.3 and 0.4 are 0.5, of half a second");
        assert_eq!((delays.leader().record, delays.leader().thread), (1, 1));
    }
}
