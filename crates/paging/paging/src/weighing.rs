//! Native run: the program's time and memory when nothing is taken away.

use crate::cache::{Cache, Key};
use crate::disturbance::{MachineCounters, MachineLoad};
use crate::footprint::{Footprint, Weighing, mib};
use crate::job::{CheckedProgram, OutputTarget};
use crate::launch::{self, Launch, Observer};
use crate::program_end::ProgramEnd;
use crate::{PagingError, headroom, proc, say};
use std::time::{Duration, Instant};
use unrack_record::Build;

const PACE: Duration = Duration::from_millis(5);
/// Number of samples per sample of shared memory, which changes slowly and costs more to look up.
const SHARED_EVERY: u32 = 8;

/// Time after which a native run that measures a footprint is said to go on.
const LONG: Duration = Duration::from_secs(10);

/// Native runs after which a program of which no memory was seen is taken to have none.
const TRIES: u32 = 4;

/// Time for which memory has to be mostly shared, so that the native run need not end before the program is refused.
const SURELY: Duration = Duration::from_secs(1);

/// Result of a native run.
#[derive(Debug, Clone)]
pub struct NativeRun {
    pub wall_s: f64,
    pub footprint: Footprint,
    pub status: ProgramEnd,
    pub left_behind: Vec<String>,
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
}
