//! Runs a program natively and measures only its times. The program's memory is not inspected, so every program is accepted.

use crate::disturbance::{MachineCounters, MachineLoad};
use crate::job::{CheckedProgram, OutputTarget};
use crate::launch::{self, Launch, RunObserver};
use crate::program_end::ProgramEnd;
use crate::{PagingError, readings};
use std::time::{Duration, Instant};
use unrack_record::Warning;

/// Interval between two searches for orphans.
const PACE: Duration = Duration::from_millis(100);

/// Times of one native run, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedRun {
    pub wall_s: f64,
    /// User time of the processes that were waited for, with a resolution of 10 ms.
    pub user_s: f64,
    /// User and system time of the processes that were waited for, with a resolution of 10 ms.
    pub processor_s: f64,
    /// Warning that other work disturbed the run, if it did.
    pub disturbance: Option<Warning>,
    pub status: ProgramEnd,
}

/// Runs the program natively, and ends it if it still runs at `until`. All processes of the program end with it, however this process ends.
///
/// # Errors
/// [`PagingError::Failed`] if the program cannot be started, [`PagingError::OutOfTime`] if it was ended at `until`,
/// [`PagingError::Interrupted`] if a signal asked this process to stop.
pub fn timed(
    job: &CheckedProgram,
    output: &OutputTarget,
    until: Option<Instant>,
) -> Result<TimedRun, PagingError> {
    let (counters, before) = (MachineCounters::now(), readings::children_s());
    let launch = Launch {
        job,
        environment: Vec::new(),
        output,
        until,
        placeholder: None,
        may_be_traced: true,
        grace: launch::GRACE,
        handler: None,
    };
    let ended = launch.run(&mut Orphans)?;
    let disturbance = MachineLoad::between(&counters, &MachineCounters::now()).disturbance();
    let after = readings::children_s();
    let [user_s, system_s] = [0, 1].map(|kind| after[kind] - before[kind]);
    let (wall_s, status) = (ended.wall.as_secs_f64(), ended.status);
    Ok(TimedRun { wall_s, user_s, processor_s: user_s + system_s, disturbance, status })
}

/// Observer that inspects nothing. The run then only reaps orphans.
struct Orphans;

impl RunObserver for Orphans {
    fn pace(&self) -> Duration {
        PACE
    }

    fn look(&mut self, _: &[u32]) -> Result<(), PagingError> {
        Ok(())
    }
}
