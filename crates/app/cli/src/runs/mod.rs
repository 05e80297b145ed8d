//! Runs of one program, natively and with part of its memory remote, as `compare` and `map` need them.
//!
//! ```text
//! survey: which runs, in which order -> Runner: one run, and the machine beside it -> kept
//!                                                                     kept -> conclusion: line, or why there is none
//! ```

pub(crate) mod budget;
pub(crate) mod conclusion;
pub(crate) mod kept;
pub(crate) mod left;
pub(crate) mod line;
pub(crate) mod progress;
pub(crate) mod quiet;
pub(crate) mod survey;

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;
use unrack_paging::{
    Calibration, CaptureTo, CheckedProgram, Delay, MachineCounters, MachineLoad, NOT_AWAY, OutputTarget,
    PagingError, ProgramEnd, RunSetup, measure, native,
};
use unrack_record::{RunFolder, Runs, Warning};
use unrack_units::{Bytes, Rate, Time};

/// Parameters of all runs of the program.
pub(crate) struct Runner<'a> {
    pub job: &'a CheckedProgram,
    pub folder: &'a RunFolder,
    /// Rate of the link to remote memory.
    pub rate: Rate,
    pub seed: u64,
}

/// One run of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// A native run, counted from 1.
    Native { nth: u32 },
    /// A run with this local memory and delay of each fetch (0: none); runs with the same values count from 1.
    Remote { local_bytes: u64, delay_ns: f64, nth: u32 },
}

/// Results of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub wall_s: f64,
    /// Footprint, of a native run only.
    pub footprint_bytes: u64,
    /// Counts of a run with remote memory.
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    /// Time in seconds of the pager on faults that a memory blade would not cause, of all threads.
    pub overhead_s: f64,
    /// Time in seconds that fetches took longer than their delay, of all threads.
    pub late_s: f64,
    /// True if more than its local memory was local.
    pub not_away: bool,
    /// Part of its time that other work may have added; 0 if it was not disturbed.
    #[serde(default)]
    pub lost: f64,
}

/// Results of earlier runs that a run needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    pub calibration: Calibration,
    pub footprint: Bytes,
    /// Native run time; `None` if other work disturbed all native runs.
    pub native_s: Option<f64>,
    /// Local memory of the run without delay that writes `trace.parquet`.
    pub captured_local: Option<Bytes>,
}

/// A finished run, and the load of the machine during it.
pub(crate) struct Made {
    pub done: Done,
    pub load: MachineLoad,
    pub warnings: Vec<Warning>,
}

/// Key of what is withheld because other work disturbed too many runs.
pub(crate) const DISTURBED: &str = "disturbed";

/// Output files of runs, in the run folder.
const NATIVE_OUTPUT: &str = "native.out";
const REMOTE_OUTPUT: &str = "remote.out";

impl Runner<'_> {
    /// Makes a run. `None` if it had not ended at `until`.
    pub(crate) fn make(
        &self,
        task: Task,
        known: &Known,
        until: Option<Instant>,
    ) -> Result<Option<Made>, Failure> {
        let before = MachineCounters::now();
        let made = match task {
            Task::Native { .. } => self.natively(until),
            Task::Remote { local_bytes, delay_ns, .. } => {
                self.remotely(Bytes::new(local_bytes), delay_ns, known, until)
            }
        };
        let load = MachineLoad::between(&before, &MachineCounters::now());
        match made {
            Ok((done, warnings)) => Ok(Some(Made { done, load, warnings })),
            Err(Ended::OutOfTime) => Ok(None),
            Err(Ended::Failed(why)) => Err(why),
        }
    }

    fn natively(&self, until: Option<Instant>) -> Result<(Done, Vec<Warning>), Ended> {
        let output = self.folder.path(NATIVE_OUTPUT);
        let run = native(self.job, &OutputTarget::File(output.clone()), until)?;
        check_status(run.status, "natively", &output)?;
        run.footprint.check()?;
        let footprint_bytes = run.footprint.bytes().get();
        let warnings = run.footprint.kept_warning().into_iter().collect();
        Ok((Done { wall_s: run.wall_s, footprint_bytes, ..Done::default() }, warnings))
    }

    fn remotely(
        &self,
        local: Bytes,
        delay_ns: f64,
        known: &Known,
        until: Option<Instant>,
    ) -> Result<(Done, Vec<Warning>), Ended> {
        let (output, trace) = (self.folder.path(REMOTE_OUTPUT), self.folder.path("trace.parquet"));
        let delay = &self.delay(delay_ns);
        let is_captured = delay_ns == 0.0 && known.captured_local == Some(local);
        let to = CaptureTo { path: &trace, native_s: known.native_s };
        let setup = RunSetup {
            local,
            footprint: Some(known.footprint),
            delay,
            calibration: known.calibration,
            seed: self.seed,
            capture: is_captured.then_some(to),
            node: None,
            output: OutputTarget::File(output.clone()),
            until,
            seat: None,
            grace: None,
            read_ahead: 0,
        };
        let report = measure(self.job, &setup)?;
        check_status(report.status, "with remote memory", &output)?;
        let (wall_s, tally) = (report.wall_s, report.tally);
        let (fetches, write_backs, threads) = (tally.fetches, tally.write_backs, tally.threads);
        let not_away = report.warnings.iter().any(|warning| warning.key == NOT_AWAY);
        let overhead_s = tally.overhead_ns as f64 / 1e9;
        let late_s = (tally.wait_ns as f64 - tally.fetches as f64 * delay_ns).max(0.0) / 1e9;
        let done =
            Done { wall_s, fetches, write_backs, threads, overhead_s, late_s, not_away, ..Done::default() };
        Ok((done, report.warnings))
    }

    /// Returns a delay of `whole_ns` in all, transmission included.
    pub(crate) fn delay(&self, whole_ns: f64) -> Delay {
        let transmission = self.rate.transmit(PAGE);
        let whole = Time::from_secs_f64(whole_ns.max(0.0) / 1e9);
        Delay::constant(whole.saturating_sub(transmission), self.rate)
    }

    /// Returns false if the last run with remote memory and the last native one wrote different output.
    fn same_output(&self) -> bool {
        let read = |name| std::fs::read(self.folder.path(name));
        match (read(NATIVE_OUTPUT), read(REMOTE_OUTPUT)) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        }
    }

    /// Returns the warning about different output.
    fn output_differs(&self) -> Warning {
        let name = self.job.words().first().cloned().unwrap_or_default();
        let text = format!(
            "the output with remote memory differs from the native output: expected if {name} prints times or \
             anything else that changes from run to run, otherwise please report it"
        );
        Warning::new("output-differs", text)
    }
}

pub(crate) const PAGE: Bytes = Bytes::new(unrack_basis::PAGE as u64);

/// Reason why there is no run.
enum Ended {
    OutOfTime,
    Failed(Failure),
}

impl From<PagingError> for Ended {
    fn from(error: PagingError) -> Ended {
        match error {
            PagingError::OutOfTime => Ended::OutOfTime,
            other => Ended::Failed(other.into()),
        }
    }
}

fn check_status(status: ProgramEnd, how: &str, output: &Path) -> Result<(), Ended> {
    if status.is_success() {
        return Ok(());
    }
    let (code, output) = (status.code(), output.display());
    Err(Ended::Failed(Failure::Failed(format!(
        "the program ended with status {code} when run {how}: see its output in {output}"
    ))))
}

/// Returns runs of these times, which must not be empty.
pub(crate) fn with_median(seconds: Vec<f64>) -> Runs {
    let median_s = unrack_paging::fit::median(&mut seconds.clone());
    Runs { seconds, median_s }
}
