//! Native run of a program, which measures its time and memory when all memory is local.

use crate::cache::{Cache, Key};
use crate::disturbance::{MachineCounters, MachineLoad};
use crate::footprint::{Footprint, Weighing, mib};
use crate::job::{CheckedProgram, OutputTarget};
use crate::launch::{self, Launch, RunObserver};
use crate::program_end::ProgramEnd;
use crate::{PagingError, headroom, proc, say};
use std::time::{Duration, Instant};
use unrack_record::Build;

const PACE: Duration = Duration::from_millis(5);
/// Number of samples per sample of shared memory, which changes slowly and costs more to read.
const SHARED_EVERY: u32 = 8;

/// Time after which a native run that measures a footprint is reported as still running.
const LONG: Duration = Duration::from_secs(10);

/// Number of native runs after which a program is assumed to have no memory, if no sample has shown any.
const TRIES: u32 = 4;

/// Time for which memory must be mostly shared before the program is refused during the native run, without waiting for its end.
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
/// [`PagingError::OutOfTime`] if it was ended at `until`; [`PagingError::Lacking`] if its memory was mostly shared for so long that no
/// change is expected.
pub fn native(
    job: &CheckedProgram,
    output: &OutputTarget,
    until: Option<Instant>,
) -> Result<NativeRun, PagingError> {
    native_with(job, output, until, MemorySampler::default())
}

fn native_with(
    job: &CheckedProgram,
    output: &OutputTarget,
    until: Option<Instant>,
    mut scale: MemorySampler,
) -> Result<NativeRun, PagingError> {
    let ended = Launch {
        job,
        environment: Vec::new(),
        output,
        until,
        placeholder: None,
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

/// Returns the program's footprint. If the build `weighed_by` has measured it before, the remembered value is returned. Otherwise a native
/// run measures it; the run's output is discarded, and a message on standard error says so. Without a build, no value is remembered.
///
/// # Errors
/// [`PagingError::Failed`] if the program cannot be started or is killed by a signal, [`PagingError::Interrupted`] if a signal asked this
/// process to stop during the native run; [`PagingError::Lacking`] as for [`native`], or if memory ran out.
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
    // On a busy machine, a program that runs for milliseconds may end before its memory is sampled.
    for _ in 1..TRIES {
        if run.footprint.anonymous > 0 || !run.status.is_success() {
            break;
        }
        run = watched(job)?;
    }
    check_whole(&run, headroom::killed() > killed_before)?;
    let is_disturbed = MachineLoad::between(&before, &MachineCounters::now()).disturbance().is_some();
    let weighing = Weighing { footprint: run.footprint, wall_s: run.wall_s, is_disturbed };
    // A failed run is not remembered, because the next one may have another peak, for example if a variable was missing.
    if let (Some(cache), Some(key), true) = (&cache, &key, run.status.is_success()) {
        cache.put(key, weighing);
    }
    Ok(weighing)
}

/// Runs the program natively without output, and prints a message if that takes long.
fn watched(job: &CheckedProgram) -> Result<NativeRun, PagingError> {
    let says_so_after = Some(Instant::now() + LONG);
    native_with(
        job,
        &OutputTarget::Discarded,
        None,
        MemorySampler { says_so_after, ..MemorySampler::default() },
    )
}

/// Checks that the program ended by itself in a native run, because the peak of a run that was cut off is not the program's footprint.
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

/// Samples the memory of the program's processes.
#[derive(Default)]
struct MemorySampler {
    peak: Footprint,
    /// Memory that cannot be made remote, at the last exact reading.
    kept: u64,
    looks: u32,
    /// Time since when the program would be refused.
    unfit_since: Option<Instant>,
    /// Time after which a message reports that the run is still in progress.
    says_so_after: Option<Instant>,
}

/// Message for a native run that takes long.
const STILL_MEASURING: &str = "still measuring the footprint: the program has run natively for 10 s, with all of its memory \
    local and its output discarded. If it is a service, which does not end by itself, stop it (Ctrl-C) and give \
    its footprint with --footprint SIZE, or a size with --local SIZE";

impl RunObserver for MemorySampler {
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
        // The sum counts shared pages several times, and includes memory that stays local. Therefore only a larger sum can mean a larger
        // footprint, and only then is the exact size read.
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
        // A shell whose command was killed exits with status 137.
        let why = check_whole(&run(ProgramEnd::Exited(137)), true).unwrap_err();
        assert!(matches!(&why, PagingError::Lacking(text) if text.contains("memory ran out")), "{why}");
        assert_eq!(check_whole(&run(ProgramEnd::Exited(0)), true), Ok(()), "another program of the group");
    }
}
