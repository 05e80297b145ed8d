//! Cycles of each thread of a run, and whether enough windows of the thread were recorded.
//!
//! A thread with enough recorded windows has a separate estimate. Threads with few windows, because they are short or many, share one
//! estimate from the windows of all such threads. The time for which such a thread may wait is bounded by its number of misses, which is
//! counted over the whole run.

use super::estimate::SymmetricEstimate;
use super::machine::MachineModel;
use super::model::ModelDelays;
use super::windows::{NEAR, ThreadWindows};
use unrack_lines::core::{EstimateError, WindowCycles, WindowSample};
use unrack_lines::summary::Summary;
use unrack_lines::window::ServedBy;
use unrack_record::Warning;

/// Number of recorded windows from which a thread has a separate estimate: Student's t is then a fifth above its limit for many windows.
pub(crate) const OWN: usize = 8;
/// Largest part of the run time, at the greatest delay, that threads with few recorded windows may add without being noticed. It is half of
/// the error that the core model itself may have.
const UNSEEN: f64 = 0.2;

/// Cycles of a thread.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThreadCycles {
    /// Index of the program's record.
    pub record: usize,
    /// Number of the thread in its process.
    pub thread: u32,
    pub instructions: u64,
    /// Loads that memory served, over the whole run.
    pub misses: u64,
    /// Number of recorded windows of this thread.
    pub windows: usize,
    /// Cycles per instruction with all memory local.
    pub near: SymmetricEstimate,
    /// Additional cycles per instruction at each point of the curves.
    pub extra: Vec<SymmetricEstimate>,
}

impl ThreadCycles {
    /// Returns the cycles of all threads.
    ///
    /// # Errors
    /// If an estimate has fewer than two windows.
    pub(super) fn all(records: &[&Summary], threads: &[ThreadWindows]) -> Result<Vec<ThreadCycles>, Warning> {
        let shared = shared(threads);
        let mut all = Vec::new();
        for (record, summary) in records.iter().enumerate() {
            for thread in summary.threads.iter().filter(|thread| thread.instructions > 0) {
                let own = threads.iter().find(|one| (one.record, one.thread) == (record, thread.thread));
                let own = own.map(|own| &own.windows[..]).unwrap_or_default();
                let (near, extra) = estimates(if own.len() >= OWN { own } else { &shared })
                    .map_err(|why| Warning::new("few-windows", why.to_string()))?;
                all.push(ThreadCycles {
                    record,
                    thread: thread.thread,
                    instructions: thread.instructions,
                    misses: thread.caches.loads[ServedBy::Memory as usize],
                    windows: own.len(),
                    near,
                    extra,
                });
            }
        }
        Ok(all)
    }

    /// Returns whether the cycles are estimated from the recorded windows of this thread alone.
    pub(crate) fn has_own(&self) -> bool {
        self.windows >= OWN
    }

    /// Returns the time in seconds of all instructions of the thread at this number of cycles per instruction.
    pub(super) fn seconds(&self, cycles: SymmetricEstimate, machine: &MachineModel) -> SymmetricEstimate {
        cycles.times(self.instructions as f64 / (machine.core.frequency_ghz * 1e9))
    }

    /// Returns the thread's time with all memory local, without its time in the kernel, in seconds.
    pub(super) fn user_s(&self, machine: &MachineModel) -> SymmetricEstimate {
        self.seconds(self.near, machine)
    }

    /// Returns the thread's time in the kernel, in seconds: the time of its process's system calls and new pages, in proportion to the
    /// thread's part of the instructions.
    pub(super) fn kernel_s(&self, records: &[&Summary], machine: &MachineModel) -> f64 {
        let summary = records[self.record];
        let all: u64 = summary.threads.iter().map(|thread| thread.instructions).sum();
        let part = self.instructions as f64 / all.max(1) as f64;
        machine.kernel_s(summary.system_calls, summary.new_pages) * part
    }

    /// Returns the thread's time with all memory local, including its time in the kernel, in seconds.
    pub(super) fn near_s(&self, records: &[&Summary], machine: &MachineModel) -> SymmetricEstimate {
        self.user_s(machine).plus(self.kernel_s(records, machine))
    }

    /// Returns the thread's time at a point of the curves, in seconds. The errors of its near time and its additional time add up linearly,
    /// because both come from the same windows.
    pub(super) fn far_s(
        &self,
        records: &[&Summary],
        machine: &MachineModel,
        point: usize,
    ) -> SymmetricEstimate {
        let extra = self.extra[point];
        let cycles =
            SymmetricEstimate { value: self.near.value + extra.value, half: self.near.half + extra.half };
        self.seconds(cycles, machine).plus(self.kernel_s(records, machine))
    }
}

/// Returns the cycles per instruction with all memory local, and the additional ones in each other lane.
fn estimates(windows: &[WindowCycles]) -> Result<(SymmetricEstimate, Vec<SymmetricEstimate>), EstimateError> {
    let sample = WindowSample::new(windows);
    let near = sample.cycles_per_instruction(NEAR)?.into();
    let lanes = windows.first().map_or(0, |window| window.cycles.len());
    let extra = |lane| sample.extra_cycles_per_instruction(lane, NEAR).map(SymmetricEstimate::from);
    Ok((near, (NEAR + 1..lanes).map(extra).collect::<Result<_, _>>()?))
}

/// Returns the recorded windows from which threads with few windows are estimated: the windows of all such threads, or of all threads if
/// those are too few.
fn shared(threads: &[ThreadWindows]) -> Vec<WindowCycles> {
    let least = threads.iter().map(|thread| thread.period).min().unwrap_or(1);
    let of = |is_wanted: &dyn Fn(&ThreadWindows) -> bool| -> Vec<WindowCycles> {
        let wanted = threads.iter().filter(|thread| is_wanted(thread));
        wanted.flat_map(|thread| thread.weighted(least)).collect()
    };
    let few = of(&|thread| thread.windows.len() < OWN);
    if few.len() >= OWN { few } else { of(&|_| true) }
}

/// Returns the reason to withhold all estimates of a run, if there is one: a thread with few recorded windows may wait for memory for a
/// large part of its time without being noticed. Each of the thread's loads from memory waits for at most `added_ns`, the latency that far
/// memory adds at the point `decisive` of the curves.
pub(super) fn hidden(
    records: &[&Summary],
    threads: &[ThreadCycles],
    machine: &MachineModel,
    (decisive, added_ns): (usize, f64),
    delays: &ModelDelays,
) -> Option<Warning> {
    let leader_s = |record: usize| {
        let own = threads.iter().filter(|thread| thread.record == record);
        own.map(|thread| thread.far_s(records, machine, decisive).value).fold(0.0, f64::max)
    };
    let unseen_s = |thread: &ThreadCycles| {
        let most_s = thread.near_s(records, machine).value + thread.misses as f64 * added_ns * 1e-9;
        most_s - leader_s(thread.record)
    };
    let few = threads.iter().filter(|thread| !thread.has_own() && thread.misses > 0);
    let worst = few.max_by(|a, b| unseen_s(a).total_cmp(&unseen_s(b)))?;
    let run_s = delays.near_s.value + delays.extra_s[decisive].value;
    let text = format!(
        "thread {} of {} loaded {} lines from memory, and has {} recorded windows, of at least {OWN}: they could delay the run by \
         up to {:.3} s, which no window shows; give each thread more to do, or use fewer threads",
        worst.thread,
        records[worst.record].program,
        worst.misses,
        worst.windows,
        unseen_s(worst)
    );
    (unseen_s(worst) > UNSEEN * run_s).then(|| Warning::new("few-windows", text))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::machine;
    use super::super::model::tests::summary;
    use super::*;
    use unrack_lines::hierarchy::CacheCounters;
    use unrack_lines::summary::ThreadSummary;

    fn windows(thread: u32, period: u64, count: u64, cycles: [f64; 2]) -> ThreadWindows {
        let window = |start| WindowCycles { thread, start, instructions: 1000, cycles: cycles.into() };
        let windows = (0..count).map(|nth| window(nth * period)).collect();
        ThreadWindows { record: 0, thread, period, windows, account: Default::default() }
    }

    fn counted(thread: u32, instructions: u64, misses: u64) -> ThreadSummary {
        let caches = CacheCounters { loads: [0, 0, 0, 0, misses], ..CacheCounters::default() };
        ThreadSummary { thread, instructions, caches, ..ThreadSummary::default() }
    }

    #[test]
    fn a_thread_with_windows_of_its_own_is_not_taken_for_another() {
        let summary = Summary {
            threads: vec![counted(0, 1_000_000_000, 10), counted(1, 10_000_000, 2_000_000)],
            ..summary(1, 0, 1)
        };
        let recorded = [windows(0, 2_000_000, 500, [500.0, 500.0]), windows(1, 100_000, 100, [9e4, 9e5])];
        let cycles = ThreadCycles::all(&[&summary], &recorded).unwrap();
        assert_eq!((cycles[0].near.value, cycles[1].near.value), (0.5, 90.0));
        assert_eq!((cycles[0].extra[0].value, cycles[1].extra[0].value), (0.0, 810.0));
    }

    #[test]
    fn windows_of_several_threads_count_by_what_they_stand_for() {
        // Seven windows each: one thread has windows of 100,000 instructions of one cycle, the other of 300,000 instructions of five
        // cycles.
        let recorded = [windows(0, 100_000, 7, [1e3, 1e3]), windows(1, 300_000, 7, [5e3, 5e3])];
        let (near, _) = estimates(&shared(&recorded)).unwrap();
        assert_eq!(near.value, 4.0);
        // A thread with many windows is no estimate for threads with few, if there are enough windows of the latter.
        let recorded = [&recorded[..], &[windows(2, 100_000, 900, [2e4, 2e4])]].concat();
        assert_eq!(estimates(&shared(&recorded)).unwrap().0.value, 4.0);
        let recorded = [windows(0, 100_000, 3, [1e3, 1e3]), windows(1, 100_000, 9, [1e3, 1e3])];
        assert_eq!(shared(&recorded).len(), 12, "three are too few");
    }

    /// The thread that would go unnoticed: it makes 2 million loads from memory, but has no recorded window.
    #[test]
    fn a_thread_with_many_misses_and_few_windows_is_withheld() {
        let cycles = |thread, misses, windows| ThreadCycles {
            record: 0,
            thread,
            instructions: 1_000_000_000,
            misses,
            windows,
            near: SymmetricEstimate { value: 1.0, half: 0.0 },
            extra: vec![SymmetricEstimate { value: 0.1, half: 0.0 }],
        };
        let summary = summary(10, 1, 100);
        let why = |threads: &[ThreadCycles]| {
            let delays = ModelDelays::of(&[&summary], threads, &machine());
            hidden(&[&summary], threads, &machine(), (0, 2000.0), &delays)
        };
        let found = why(&[cycles(0, 0, 900), cycles(1, 2_000_000, 7)]).unwrap();
        assert!(found.key == "few-windows" && found.text.contains("thread 1 of"), "{found}");
        assert_eq!(why(&[cycles(0, 0, 900), cycles(1, 2_000_000, 8)]), None);
        assert_eq!(why(&[cycles(0, 0, 900), cycles(1, 20_000, 3)]), None, "at most 40 ms");
    }
}
