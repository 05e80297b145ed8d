//! Native runs of a program: wall time, and processor time of all its processes.

use super::estimate::SymmetricEstimate;
use crate::error::Error;
use crate::runs::task::with_median;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;
use unrack_paging::{CheckedProgram, Input, OutputTarget, TimedRun, timed};
use unrack_record::{Interval, NativeTimes, Stated, Warning};

/// Runs a command natively. Its output goes to the file `output`, or is discarded. All its processes are ended at `until`, and when this
/// process receives a signal to stop.
///
/// # Errors
/// If the command cannot be started, or fails.
pub fn run(
    command: &[OsString],
    input: &Input,
    output: Option<&Path>,
    until: Option<Instant>,
) -> Result<TimedRun, Error> {
    let mut job = CheckedProgram::for_native_runs(command)?;
    job.input = input.clone();
    let target = output.map_or(OutputTarget::Discarded, |path| OutputTarget::File(path.into()));
    let run = timed(&job, &target, until)?;
    if run.status.is_success() {
        return Ok(run);
    }
    let see = output.map_or(String::new(), |path| format!(": see its output in {}", path.display()));
    Err(Error::Failed(format!("the program ended with {} when run natively{see}", run.status)))
}

/// Runs a command natively until `wants_more` returns false. `wants_more` is called before each run, with the runs made so far.
///
/// # Errors
/// If the command cannot be run, or fails.
///
/// # Panics
/// If `wants_more` allows no run at all.
pub(crate) fn repeated(
    command: &[OsString],
    input: &Input,
    output: Option<&Path>,
    wants_more: impl Fn(&[TimedRun]) -> Result<bool, Error>,
) -> Result<NativeRuns, Error> {
    let mut runs = Vec::new();
    while wants_more(&runs)? {
        runs.push(run(command, input, output, None)?);
    }
    Ok(NativeRuns::from_runs(runs))
}

/// Times of native runs, and whether other work disturbed them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NativeRuns {
    pub times: NativeTimes,
    /// Reason why other work on the machine disturbed all runs, if it did.
    pub disturbance: Option<Warning>,
}

/// Run time that delays are compared with, in seconds, and the bounds of the true run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunTime {
    pub(super) value_s: f64,
    least_s: f64,
    most_s: f64,
}

impl RunTime {
    pub(super) fn exactly(value_s: f64) -> RunTime {
        RunTime { value_s, least_s: value_s, most_s: value_s }
    }

    /// Returns the slowdown that this delay causes in a program with this run time.
    pub(super) fn slowdown(self, delay_s: SymmetricEstimate) -> Stated {
        let over = |delay_s: f64, run_s: f64| 1.0 + delay_s / run_s;
        let ends = [delay_s.value - delay_s.half, delay_s.value + delay_s.half];
        let each = ends.map(|end| [self.least_s, self.most_s].map(|run_s| over(end, run_s)));
        let (low, high) = (each.as_flattened().iter().copied().fold(f64::INFINITY, f64::min), each);
        let high = high.as_flattened().iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let value = over(delay_s.value, self.value_s);
        Stated::Known(Interval { value: Some(value), low, high: Some(high) })
    }
}

impl NativeRuns {
    /// Takes the runs that other work did not disturb. If other work disturbed all of them, takes all.
    ///
    /// # Panics
    /// If there are no runs.
    pub(crate) fn from_runs(runs: Vec<TimedRun>) -> NativeRuns {
        let calm: Vec<TimedRun> = runs.iter().filter(|run| run.disturbance.is_none()).cloned().collect();
        let disturbance = runs.iter().find_map(|run| run.disturbance.clone()).filter(|_| calm.is_empty());
        let disturbance = disturbance.map(|why| {
            let text = format!(
                "ROUGH: other work disturbed all native runs ({why}): slowdowns are over processor time where that is less, and their \
                 intervals reach to those over wall time; run it again on an idle machine, or give a --budget within which to wait for \
                 one"
            );
            Warning::new("native-disturbed", text)
        });
        let used = if calm.is_empty() { runs } else { calm };
        let times = |of: fn(&TimedRun) -> f64| with_median(used.iter().map(of).collect());
        let times = NativeTimes {
            wall: times(|run| run.wall_s),
            processor: times(|run| run.processor_s),
            user: times(|run| run.user_s),
        };
        NativeRuns { times, disturbance }
    }

    /// Returns the run time to compare with: the wall time. If other work disturbed all runs and the processor time is less than the wall
    /// time, it is the processor time, and the true run time lies between the two.
    pub(crate) fn run(&self) -> RunTime {
        let (wall_s, processor_s) = (self.times.wall.median_s, self.times.processor.median_s);
        match self.disturbance.is_some() && 0.0 < processor_s && processor_s < wall_s {
            true => RunTime { value_s: processor_s, least_s: processor_s, most_s: wall_s },
            false => RunTime::exactly(wall_s),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    /// Native run with these wall, processor and user times.
    pub(crate) fn native(wall_s: f64, processor_s: f64, user_s: f64) -> NativeRuns {
        let runs = |median_s| unrack_record::Runs { seconds: vec![median_s], median_s };
        let times = NativeTimes { wall: runs(wall_s), processor: runs(processor_s), user: runs(user_s) };
        NativeRuns { times, disturbance: None }
    }

    #[test]
    fn a_program_that_computes_takes_processor_time() {
        let folder = TestFolder::new("lines-native");
        let command = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"];
        let output = folder.join("out");
        let run = run(&command.map(OsString::from), &Input::Empty, Some(&output), None).unwrap();
        assert!(run.processor_s > 0.0 && run.wall_s > 0.01, "{run:?}");
        assert_eq!(std::fs::read_to_string(output).unwrap(), "done\n");
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        let folder = TestFolder::new("lines-native-fails");
        let run = run(&["false".into()], &Input::Empty, Some(&folder.join("out")), None);
        let Error::Failed(text) = run.unwrap_err() else { panic!("a failure while running") };
        assert!(text.contains("natively"), "{text}");
    }

    #[test]
    fn disturbed_wall_times_are_not_compared_with() {
        let calm = native(3.0, 1.0, 1.0);
        let busy = NativeRuns { disturbance: Some(Warning::new("busy", "others ran")), ..calm.clone() };
        assert_eq!(calm.run(), RunTime::exactly(3.0));
        assert_eq!(busy.run(), RunTime { value_s: 1.0, least_s: 1.0, most_s: 3.0 });
        // A delay of 2 s: three times as slow over processor time, and 1.67 times over wall time.
        let rough = busy.run().slowdown(SymmetricEstimate { value: 2.0, half: 0.0 });
        let interval = rough.known().unwrap();
        assert_eq!((interval.value, interval.low, interval.high), (Some(3.0), 1.0 + 2.0 / 3.0, Some(3.0)));
    }
}
