//! Cycles of the recorded windows: with all memory local, and at each point of each curve.
//!
//! The core model runs 16 lanes (memory configurations) at once. In each pass the first lane has only local memory, and the other lanes are
//! points of the curves. The curves take as many passes as they need, each on a separate thread.

use super::instrumented::Instrumented;
use super::machine::MachineModel;
use super::placed::RecordMarks;
use crate::error::{Error, failed};
use std::collections::BTreeMap;
use unrack_lines::core::{CoreReplay, CycleAccount, LANES, NearPages, WindowCycles};
use unrack_lines::summary::Summary;

/// Index of the lane with local memory.
pub(crate) const NEAR: usize = 0;

/// Placement and latencies of one curve of slowdowns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// Placement in words.
    pub placement: String,
    pub pages: NearPages,
    /// Latencies of remote memory, smallest first, in nanoseconds.
    pub far_ns: Vec<f64>,
}

/// Windows of one thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThreadWindows {
    /// Index of the program's record.
    pub record: usize,
    /// Number of the thread in its process.
    pub thread: u32,
    /// Number of instructions that a window represents.
    pub period: u64,
    /// Cycles by lane of the core model: first local memory, then the points of all curves in order.
    pub windows: Vec<WindowCycles>,
    /// Cycle account of the time with all memory local.
    pub account: CycleAccount,
}

/// Runs the core model on all recorded windows of a run, in all lanes.
///
/// # Errors
/// If a recording is damaged, or a latency is out of range.
pub(crate) fn run(
    run: &Instrumented,
    machine: &MachineModel,
    marks: &RecordMarks,
    curves: &[Curve],
) -> Result<Vec<ThreadWindows>, Error> {
    let points: Vec<(NearPages, f64)> =
        curves.iter().flat_map(|curve| curve.far_ns.iter().map(|ns| (curve.pages, *ns))).collect();
    let one =
        |points: &[(NearPages, f64)]| WindowsPass { run, machine, marks, points: points.to_vec() }.threads();
    let passes: Vec<Result<Vec<ThreadWindows>, Error>> = std::thread::scope(|scope| {
        let started: Vec<_> =
            points.chunks(LANES - 1).map(|points| scope.spawn(move || one(points))).collect();
        started
            .into_iter()
            .map(|pass| pass.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut passes = passes.into_iter();
    let mut threads = passes.next().unwrap_or_else(|| one(&[]))?;
    for more in passes {
        for (thread, more) in threads.iter_mut().zip(more?) {
            thread.append(more);
        }
    }
    Ok(threads)
}

/// Returns the mean number of threads of a process that run at the same time: its instructions divided by those of its longest thread.
pub(crate) fn at_once(summary: &Summary) -> f64 {
    let all: u64 = summary.threads.iter().map(|thread| thread.instructions).sum();
    let longest = summary.threads.iter().map(|thread| thread.instructions).max().unwrap_or(0);
    all as f64 / longest.max(1) as f64
}

/// One pass of the core model over all recorded windows, in 16 lanes.
struct WindowsPass<'a> {
    run: &'a Instrumented,
    machine: &'a MachineModel,
    marks: &'a RecordMarks,
    points: Vec<(NearPages, f64)>,
}

impl WindowsPass<'_> {
    fn threads(&self) -> Result<Vec<ThreadWindows>, Error> {
        let mut threads = Vec::new();
        for (record, process) in self.run.processes().iter().enumerate() {
            let Some(mut reader) = process.open()? else { continue };
            let at_once = at_once(&process.summary);
            let mut cores = BTreeMap::<u32, (CoreReplay, Vec<WindowCycles>)>::new();
            while let Some(mut window) = reader.next_window().map_err(failed)? {
                self.marks.mark(record, &mut window);
                let (core, windows) = match cores.entry(window.thread) {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(new) => {
                        new.insert((self.core(at_once)?, Vec::new()))
                    }
                };
                windows.push(core.run(&window, reader.blocks().all()));
            }
            let counted = &process.summary.threads;
            threads.extend(cores.into_iter().map(|(thread, (core, windows))| {
                let account = core.account();
                let period = counted.get(thread as usize).map_or(1, |counted| counted.period.max(1));
                ThreadWindows { record, thread, period, windows, account }
            }));
        }
        Ok(threads)
    }

    /// Returns the core model of one of `at_once` threads that run at the same time.
    fn core(&self, at_once: f64) -> Result<CoreReplay, Error> {
        let near = (NearPages::AllNear, self.machine.near_ns);
        let lane = |(pages, far_ns): &(NearPages, f64)| self.machine.lane(*pages, *far_ns, at_once);
        let lanes: Vec<_> = [near].iter().chain(&self.points).map(lane).collect();
        CoreReplay::new(&self.machine.core, &lanes, NEAR).map_err(failed)
    }
}

impl ThreadWindows {
    /// Returns the recorded windows of a thread, weighted for a sample of several threads. The thread with the shortest period, `least`,
    /// has weight 1; for example, a window of a thread with twice that period counts twice.
    pub(crate) fn weighted(&self, least: u64) -> impl Iterator<Item = WindowCycles> {
        let weight = self.period as f64 / least.max(1) as f64;
        self.windows.iter().map(move |window| WindowCycles {
            instructions: (window.instructions as f64 * weight).round() as u64,
            cycles: window.cycles.iter().map(|cycles| cycles * weight).collect(),
            ..window.clone()
        })
    }

    /// Appends the points that another pass computed for the same windows.
    fn append(&mut self, more: ThreadWindows) {
        debug_assert_eq!(
            (self.record, self.thread, self.windows.len()),
            (more.record, more.thread, more.windows.len())
        );
        for (window, more) in self.windows.iter_mut().zip(more.windows) {
            window.cycles.extend_from_slice(&more.cycles[NEAR + 1..]);
        }
    }
}
