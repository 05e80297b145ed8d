//! Native run: the program's time and memory when nothing is taken away.

use crate::cache::{Cache, Key};
use crate::disturbance::{MachineCounters, MachineLoad};
use crate::job::{CheckedProgram, OutputTarget, ProgramEnd};
use crate::launch::{self, Launch, Observer};
use crate::{PagingError, headroom, proc, say};
use std::time::{Duration, Instant};
use unrack_record::{Build, Warning};
use unrack_units::Bytes;

const PACE: Duration = Duration::from_millis(5);
/// Number of samples per sample of shared memory, which changes slowly and costs more to look up.
const SHARED_EVERY: u32 = 8;
/// Bytes of shared memory that are never a reason to refuse: every program has a little.
const LITTLE: u64 = 16 << 20;
/// Bytes of private memory that cannot be taken away that are never worth a word.
const LITTLE_KEPT: u64 = 2 << 20;

/// Time after which a native run that measures a footprint is said to go on.
const LONG: Duration = Duration::from_secs(10);

/// Native runs after which a program of which no memory was seen is taken to have none.
const TRIES: u32 = 4;

/// Time for which memory has to be mostly shared, so that the native run need not end before the program is refused.
const SURELY: Duration = Duration::from_secs(1);

/// Memory that a program needs at its peak, of all its processes together, in bytes. What several processes share
/// counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Footprint {
    /// Private memory that can be taken away.
    pub anonymous: u64,
    /// Private memory that cannot, such as what a program has changed of files that it maps.
    pub kept: u64,
    /// Shared memory, which cannot either.
    pub shared: u64,
}

impl Footprint {
    /// Returns the bytes that can be taken away.
    pub fn bytes(self) -> Bytes {
        Bytes::new(self.anonymous)
    }

    /// Returns the private memory of processes now, in which a page that several share counts once; pages of a process
    /// whose page tables may not be read count as its own.
    pub(crate) fn distinct(members: &[u32]) -> Footprint {
        if let [one] = members {
            return Footprint::alone(*one);
        }
        let (mut sum, mut largest) = (Footprint::default(), 0);
        for pid in members {
            let private = proc::private_memory(*pid);
            let whole = private.map_or_else(
                || Footprint::alone(*pid),
                |private| Footprint {
                    anonymous: private.proportional_anonymous,
                    kept: private.proportional_kept,
                    shared: 0,
                },
            );
            sum.anonymous = sum.anonymous.saturating_add(whole.anonymous);
            sum.kept = sum.kept.saturating_add(whole.kept);
            largest = largest.max(private.map_or(0, |private| private.anonymous));
        }
        // Shares of a process that ended meanwhile are missing: no less than one of them has.
        Footprint { anonymous: sum.anonymous.max(largest), ..sum }
    }

    fn alone(pid: u32) -> Footprint {
        let kept = proc::kept_bytes(pid).unwrap_or(0);
        let all = proc::anonymous_bytes(pid).unwrap_or(0);
        Footprint { anonymous: all.saturating_sub(kept), kept, shared: 0 }
    }

    /// Returns the shared memory of processes now.
    pub(crate) fn shared_by(members: &[u32]) -> Footprint {
        let sum = |bytes: fn(u32) -> Option<u64>| members.iter().filter_map(|pid| bytes(*pid)).sum::<u64>();
        let all = sum(proc::shared_bytes);
        // Looked at closely only if there is any.
        let part = |pid| proc::proportional_shared_bytes(pid).or_else(|| proc::shared_bytes(pid));
        let shared = if all > LITTLE { sum(part) } else { all };
        Footprint { shared, ..Footprint::default() }
    }

    /// Returns the warning that much private memory stays local beside any limit.
    pub fn kept_warning(self) -> Option<Warning> {
        let text = format!(
            "{:.0} MiB more of private memory stays local: what the program has changed of files that it maps, or may \
             execute, cannot be made remote",
            mib(self.kept)
        );
        (self.kept > LITTLE_KEPT.max(self.anonymous / 10)).then(|| Warning::new("kept", text))
    }

    /// Raises each part to that of `other`, where that is larger.
    pub(crate) fn keep_larger(&mut self, other: Footprint) {
        self.anonymous = self.anonymous.max(other.anonymous);
        self.kept = self.kept.max(other.kept);
        self.shared = self.shared.max(other.shared);
    }

    /// Checks that most of the memory can be taken away.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] for a program whose memory is mostly shared.
    pub fn check(self) -> Result<(), PagingError> {
        if self.shared <= LITTLE || self.shared <= self.anonymous {
            return Ok(());
        }
        Err(PagingError::Lacking(format!(
            "more than half of this program's memory is shared memory ({:.0} MiB, and {:.0} MiB private), which \
             cannot be made remote: let it use private memory, for example by fewer worker processes or a smaller \
             shared buffer",
            mib(self.shared),
            mib(self.anonymous)
        )))
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Result of a native run.
#[derive(Debug, Clone)]
pub struct NativeRun {
    pub wall_s: f64,
    pub footprint: Footprint,
    pub status: ProgramEnd,
    pub left_behind: Vec<String>,
}

/// Part of a native run that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Weighing {
    #[serde(flatten)]
    pub footprint: Footprint,
    pub wall_s: f64,
    /// True if other work disturbed the run: its time is not that of an idle machine, while its memory is the same.
    #[serde(default)]
    pub is_disturbed: bool,
}

impl Weighing {
    /// Returns the native run time, unless other work disturbed it.
    pub fn native_s(&self) -> Option<f64> {
        (!self.is_disturbed).then_some(self.wall_s)
    }
}

/// Runs the program natively, and ends it if it still runs at `until`.
///
/// # Errors
/// [`PagingError::OutOfTime`] if it was ended; [`PagingError::Lacking`] if its memory was mostly shared for so long that
/// nothing else is to be expected of it.
pub fn native(
    job: &CheckedProgram,
    output: &OutputTarget,
    until: Option<Instant>,
) -> Result<NativeRun, PagingError> {
    native_with(job, output, until, Scale::default())
}

fn native_with(
    job: &CheckedProgram,
    output: &OutputTarget,
    until: Option<Instant>,
    mut scale: Scale,
) -> Result<NativeRun, PagingError> {
    let ended = Launch {
        job,
        environment: Vec::new(),
        output,
        until,
        seat: None,
        may_be_traced: true,
        grace: launch::GRACE,
        handler: None,
    }
    .run(&mut scale)?;
    Ok(NativeRun {
        wall_s: ended.wall.as_secs_f64(),
        footprint: scale.peak,
        status: ended.status,
        left_behind: ended.left_behind,
    })
}

/// Returns the program's footprint: remembered, if this build measured it (`weighed_by`); else measured by a
/// native run whose output is discarded, which is said on standard error. Without a build nothing is remembered.
///
/// # Errors
/// [`PagingError::Failed`] if the program cannot be started or is killed by a signal, [`PagingError::Interrupted`] if a signal
/// asked us to stop during the native run; [`PagingError::Lacking`] as for [`native`], or if memory ran out.
pub fn footprint(job: &CheckedProgram, weighed_by: Option<&Build>) -> Result<Weighing, PagingError> {
    let cache = weighed_by.and_then(|_| Cache::of_user());
    let key = weighed_by.and_then(|build| Some(Key::for_program(&job.program)?.weighed_by(build)));
    if let (Some(cache), Some(key)) = (&cache, &key)
        && let Some(known) = cache.get(key)
    {
        return Ok(known);
    }
    say("measuring the footprint by a native run, whose output is discarded");
    let before = MachineCounters::now();
    let killed_before = headroom::killed();
    let mut run = watched(job)?;
    // On a busy machine, a program that lasts for milliseconds may end before it is looked at.
    for _ in 1..TRIES {
        if run.footprint.anonymous > 0 || !run.status.is_success() {
            break;
        }
        run = watched(job)?;
    }
    check_whole(&run, headroom::killed() > killed_before)?;
    let is_disturbed = MachineLoad::between(&before, &MachineCounters::now()).disturbance().is_some();
    let weighing = Weighing { footprint: run.footprint, wall_s: run.wall_s, is_disturbed };
    // A program that failed, for lack of a variable perhaps, may have another peak the next time.
    if let (Some(cache), Some(key), true) = (&cache, &key, run.status.is_success()) {
        cache.put(key, weighing);
    }
    Ok(weighing)
}

/// Runs the program natively without output, and says so if that takes long.
fn watched(job: &CheckedProgram) -> Result<NativeRun, PagingError> {
    let says_so_after = Some(Instant::now() + LONG);
    native_with(job, &OutputTarget::Discarded, None, Scale { says_so_after, ..Scale::default() })
}

/// Checks that a native run came to its own end: a peak that was cut off is no footprint.
fn check_whole(run: &NativeRun, memory_ran_out: bool) -> Result<(), PagingError> {
    let peak = mib(run.footprint.anonymous);
    match run.status {
        _ if memory_ran_out && !run.status.is_success() => Err(PagingError::Lacking(format!(
            "memory ran out during the native run that measures the footprint, at {peak:.0} MiB, and the kernel killed \
             a process: raise the limit of memory (cgroup), or give the footprint with --footprint"
        ))),
        ProgramEnd::Signaled(signal) => Err(PagingError::Failed(format!(
            "the native run that measures the footprint was killed by signal {signal}, at {peak:.0} MiB: its peak is not \
             the program's; give the footprint with --footprint, or a size with --local"
        ))),
        ProgramEnd::Exited(_) => Ok(()),
    }
}

/// Samples the memory of a family of processes.
#[derive(Default)]
struct Scale {
    peak: Footprint,
    /// Memory that cannot be taken away, at the last close look.
    kept: u64,
    looks: u32,
    /// Time since which the program would be refused.
    unfit_since: Option<Instant>,
    /// Time after which a person should know that the run still goes on.
    says_so_after: Option<Instant>,
}

/// Said of a native run that has taken long.
const STILL_MEASURING: &str = "still measuring the footprint: the program has run natively for 10 s, with all of its memory \
    local and its output discarded. If it is a service, which does not end by itself, stop it (Ctrl-C) and give \
    its footprint with --footprint SIZE, or a size with --local SIZE";

impl Observer for Scale {
    fn pace(&self) -> Duration {
        PACE
    }

    fn look(&mut self, members: &[u32]) -> Result<(), PagingError> {
        if self.says_so_after.take_if(|time| Instant::now() >= *time).is_some() {
            say(STILL_MEASURING);
        }
        if self.looks.is_multiple_of(SHARED_EVERY) {
            let shared = Footprint::shared_by(members);
            self.peak.keep_larger(shared);
        }
        self.looks += 1;
        // The sum counts what is shared several times, and what is kept: only a larger one can be a larger footprint.
        let sum = members.iter().filter_map(|pid| proc::anonymous_bytes(*pid)).sum::<u64>();
        if sum > self.peak.anonymous + self.kept {
            let now = Footprint::distinct(members);
            self.kept = now.kept;
            self.peak.keep_larger(now);
        }
        let Err(why) = self.peak.check() else {
            self.unfit_since = None;
            return Ok(());
        };
        match self.unfit_since.get_or_insert_with(Instant::now).elapsed() {
            time if time < SURELY => Ok(()),
            _ => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_cut_off_measures_nothing() {
        let run = |status| NativeRun {
            wall_s: 1.0,
            footprint: Footprint { anonymous: 295 << 20, ..Footprint::default() },
            status,
            left_behind: Vec::new(),
        };
        for status in [ProgramEnd::Exited(0), ProgramEnd::Exited(3)] {
            assert_eq!(check_whole(&run(status), false), Ok(()));
        }
        let why = check_whole(&run(ProgramEnd::Signaled(9)), false).unwrap_err();
        assert!(matches!(&why, PagingError::Failed(text) if text.contains("signal 9, at 295 MiB")), "{why}");
        // A shell whose command was killed ends with 137.
        let why = check_whole(&run(ProgramEnd::Exited(137)), true).unwrap_err();
        assert!(matches!(&why, PagingError::Lacking(text) if text.contains("memory ran out")), "{why}");
        assert_eq!(check_whole(&run(ProgramEnd::Exited(0)), true), Ok(()), "another program of the group");
    }

    #[test]
    fn mostly_shared_memory_is_refused() {
        let footprint = |anonymous: u64, shared: u64| Footprint {
            anonymous: anonymous << 20,
            kept: 0,
            shared: shared << 20,
        };
        assert!(footprint(100, 90).check().is_ok());
        assert!(footprint(1, 10).check().is_ok(), "little");
        let why = footprint(10, 100).check().unwrap_err();
        assert!(
            matches!(&why, PagingError::Lacking(text) if text.contains("shared memory (100 MiB")),
            "{why}"
        );
    }
}
