//! Compares the local memory of a run with its limit, to verify that the rest was really remote.
//!
//! Pagers count the local pages of their processes. They cannot see two kinds of memory, which this module inspects: the memory of programs
//! that run without a pager, and pages that several processes share since a fork.

use crate::control_file::ControlFile;
use crate::footprint::Footprint;
use crate::proc;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::control::{PagerCounts, Unpaged};
use unrack_record::Warning;
use unrack_units::Bytes;

/// Bytes that are too few to doubt a run.
const LITTLE: u64 = 1 << 20;
/// Fraction of the run time for which the limit may be exceeded.
const PART_OF_TIME: f64 = 0.05;
/// Time in seconds for which the limit may be exceeded in any case, because the pager takes a moment to notice.
const MOMENT_S: f64 = 0.05;

/// Local memory of a run at its peak, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct LocalMemory {
    /// Largest private memory of all processes together that lasted at least 50 ms. Memory that processes share since a fork counts once.
    pub peak_local_bytes: u64,
    /// Part of the peak that belonged to programs without a pager.
    pub unpaged_bytes: u64,
    /// Time in seconds for which clearly more than the limit was local.
    pub over_limit_s: f64,
    /// Shared memory, which stays local in addition to the limit.
    pub shared_bytes: u64,
}

impl LocalMemory {
    /// Returns the warning that memory which was to be remote stayed local for too long in a run of this duration, or belonged to programs
    /// without a pager.
    pub(crate) fn not_away(&self, limit: Bytes, wall_s: f64) -> Option<Warning> {
        let long = self.over_limit_s > MOMENT_S.max(PART_OF_TIME * wall_s);
        let unpaged = self.unpaged_bytes > LITTLE.max(limit.get() / 4);
        let cause = match (long, unpaged) {
            (false, false) => return None,
            (true, false) => format!("for {:.2}s of {wall_s:.2}s", self.over_limit_s),
            (_, true) => format!("{} of it in programs without a pager", size(self.unpaged_bytes)),
        };
        // Peaks count only if they last 50 ms, so much memory may be local for shorter times again and again without a peak.
        let stayed = match self.peak_local_bytes > limit.get() {
            true => {
                format!("up to {} stayed local where {} may", size(self.peak_local_bytes), size(limit.get()))
            }
            false => format!("clearly more than {} stayed local", size(limit.get())),
        };
        let text = format!(
            "memory that should have been remote stayed local: {stayed}, {cause}; do not draw conclusions from this run"
        );
        Some(Warning::new(NOT_AWAY, text))
    }

    /// Returns the note that more than the limit was local for a moment. The run remains usable.
    pub(crate) fn peak(&self, limit: Bytes) -> Option<Warning> {
        let text = format!(
            "up to {} were local for a moment where {} may ({:.2}s in all above that): the pager takes pages after the \
             program has touched them",
            size(self.peak_local_bytes),
            size(limit.get()),
            self.over_limit_s
        );
        let is_high = self.peak_local_bytes > limit.get() + limit.get() / 2 + LITTLE;
        (is_high && self.over_limit_s > MOMENT_S).then(|| Warning::new("peak-local", text))
    }

    /// Returns the warning that much memory was shared and therefore not covered by the limit.
    pub(crate) fn shared(&self, limit: Bytes) -> Option<Warning> {
        let text = format!(
            "{} of shared memory stayed local beside that: pages that processes map together cannot be made remote",
            size(self.shared_bytes)
        );
        let is_much = self.shared_bytes > LITTLE.max(limit.get() / 4);
        is_much.then(|| Warning::new("shared-memory", text))
    }
}

/// Key of the warning that memory which was to be remote stayed local.
pub const NOT_AWAY: &str = "not-away";

/// Returns the [`NOT_AWAY`] warning for a run in which no page was ever taken, although the program needs more than its limit.
pub(crate) fn none_taken(limit: Bytes, footprint: Bytes) -> Option<Warning> {
    let (limit, footprint) = (limit.get(), footprint.get());
    let text = format!(
        "nothing was remote: no page was ever taken, though the program needs {} and may keep {}; do not conclude from this run",
        size(footprint),
        size(limit)
    );
    // Pages of the loader and of the pager count only for the footprint.
    (footprint > limit + limit / 4 + 2 * LITTLE).then(|| Warning::new(NOT_AWAY, text))
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{}KiB", bytes >> 10),
        mebibytes => format!("{mebibytes}MiB"),
    }
}

/// Returns the warning that processes ran with all their memory local. `names` are those that were observed.
pub(crate) fn unpaged(counts: &PagerCounts, names: &[&str]) -> Option<Warning> {
    let (processes, reasons) = (counts.unpaged.load(Relaxed), counts.unpaged_reasons.load(Relaxed));
    let causes = [
        (
            Unpaged::Rights,
            "the rights or the root directory that a pager needs had been given up (with a \
            /dev/userfaultfd that the user may open, or vm.unprivileged_userfaultfd=1, there may be one)",
        ),
        (Unpaged::Limits, "no more files or threads were allowed"),
        (Unpaged::Filter, "system calls are filtered (seccomp)"),
    ];
    let found = causes.iter().filter(|(cause, _)| reasons & *cause as u64 != 0).map(|(_, text)| *text);
    let found: Vec<_> = found.collect();
    let why =
        if found.is_empty() { "the pager could not start".to_string() } else { found.join(", or because ") };
    let seen = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let count = processes.max(names.len() as u64);
    let whose = if count == 1 { "a process".to_string() } else { format!("{count} processes") };
    let text = format!("{whose} of this run{seen} went on with all memory local, because {why}");
    (processes > 0 || !names.is_empty()).then(|| Warning::new("not-paged", text))
}

/// Stores for each process of a run how many of its pages count for the other processes with which it shares them. Does nothing unless this
/// is known for all processes.
pub(crate) fn share_out(control: &ControlFile, members: &[u32]) {
    let generation = control.generation();
    let mut found = Vec::new();
    for slot in control.live_slots().filter(|slot| members.contains(&slot.pid.load(Relaxed))) {
        let Some(private) = proc::private_memory(slot.pid.load(Relaxed)) else { return };
        found.push((slot, private.anonymous.saturating_sub(private.proportional_anonymous)));
    }
    // A single process shares no pages. If a process was added or ended meanwhile, the shares have changed.
    if found.len() < 2 || control.generation() != generation {
        return;
    }
    for (slot, bytes) in found {
        slot.shared_pages.store(bytes / proc::PAGE, Relaxed);
        slot.shared_generation.store(generation, Relaxed);
    }
}

/// Peak of the memory that the pagers do not count.
#[derive(Default)]
pub(crate) struct Unseen {
    peak: Footprint,
}

impl Unseen {
    /// Reads the shared memory of `members`, and all memory of the processes `without` a pager.
    pub(crate) fn look(&mut self, members: &[u32], without: &[u32]) {
        self.peak.keep_larger(Footprint::shared_by(members));
        self.peak.keep_larger(Footprint { shared: 0, ..Footprint::distinct(without) });
    }

    /// Returns the local memory of the run, given the counts of its pagers.
    pub(crate) fn with_counts(&self, counts: &PagerCounts) -> LocalMemory {
        let paged = counts.peak_local.load(Relaxed);
        LocalMemory {
            over_limit_s: counts.over_ns.load(Relaxed) as f64 / 1e9,
            // Sum of two peaks, which need not have occurred at the same time.
            peak_local_bytes: paged.saturating_mul(proc::PAGE).saturating_add(self.peak.anonymous),
            unpaged_bytes: self.peak.anonymous,
            shared_bytes: self.peak.shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Bytes = Bytes::new(100 << 20);

    fn local(peak: u64, unpaged: u64, shared: u64) -> LocalMemory {
        let [peak_local_bytes, unpaged_bytes, shared_bytes] = [peak, unpaged, shared].map(|mib| mib << 20);
        LocalMemory { peak_local_bytes, unpaged_bytes, shared_bytes, over_limit_s: 0.0 }
    }

    #[test]
    fn time_above_the_limit_is_said() {
        let over =
            |over_limit_s, wall_s| LocalMemory { over_limit_s, ..local(900, 0, 0) }.not_away(LIMIT, wall_s);
        assert_eq!(over(0.0, 1.0), None);
        assert_eq!(over(0.04, 0.1), None, "a moment");
        assert_eq!(over(0.4, 10.0), None, "a small part of the time");
        let text = LocalMemory { over_limit_s: 0.6, ..local(90, 0, 0) }.not_away(LIMIT, 10.0).unwrap().text;
        assert!(text.contains("clearly more than 100MiB stayed local, for 0.60s"), "{text}");
        let text = over(0.6, 10.0).unwrap().text;
        assert!(text.contains("900MiB stayed local where 100MiB may, for 0.60s of 10.00s"), "{text}");
    }

    #[test]
    fn a_moment_far_above_the_limit_is_said() {
        let peak = |mib, over_limit_s| LocalMemory { over_limit_s, ..local(mib, 0, 0) }.peak(LIMIT);
        assert_eq!(peak(150, 0.5), None);
        assert_eq!(peak(400, 0.0), None, "no longer than it takes to notice");
        assert!(
            peak(400, 0.5).unwrap().text.contains("400MiB were local for a moment where 100MiB may (0.50s")
        );
    }

    #[test]
    fn programs_without_a_pager_are_said() {
        assert_eq!(local(100, 25, 0).not_away(LIMIT, 1.0), None);
        let text = local(900, 800, 0).not_away(LIMIT, 1.0).unwrap().text;
        assert!(text.contains("800MiB of it in programs without a pager"), "{text}");
    }

    #[test]
    fn a_run_from_which_nothing_was_taken_is_said() {
        let footprint = |mib: u64| none_taken(LIMIT, Bytes::new(mib << 20));
        assert_eq!(footprint(127), None);
        assert!(footprint(128).unwrap().text.contains("needs 128MiB and may keep 100MiB"));
    }

    #[test]
    fn processes_without_a_pager_are_said_with_the_reasons() {
        let counts = PagerCounts::default();
        assert_eq!(unpaged(&counts, &[]), None);
        assert!(unpaged(&counts, &["a"]).unwrap().text.contains("a process of this run (a) went on"));
        counts.unpaged.store(3, Relaxed);
        counts.unpaged_reasons.store(Unpaged::Filter as u64, Relaxed);
        let text = unpaged(&counts, &["a"]).unwrap().text;
        assert!(
            text.starts_with("3 processes") && text.ends_with("system calls are filtered (seccomp)"),
            "{text}"
        );
    }

    #[test]
    fn much_shared_memory_is_said() {
        assert_eq!(local(0, 0, 25).shared(LIMIT), None);
        assert!(local(0, 0, 26).shared(LIMIT).unwrap().text.starts_with("26MiB of shared memory"));
    }
}
