//! One run of the program, natively or with part of its memory remote, and the load of the machine beside it.

use super::task::{Done, Known, PAGE, Task};
use crate::error::Error;
use crate::load::beside;
use std::path::Path;
use std::time::Instant;
use unrack_paging::{
    CaptureTo, CheckedProgram, Delay, MachineLoad, NOT_AWAY, OutputTarget, PagingError, ProgramEnd, RunSetup,
    measure, native,
};
use unrack_record::{RunFolder, Warning};
use unrack_units::{Bytes, Rate, Time};

/// Parameters of all runs of the program.
pub(crate) struct Runner<'a> {
    pub job: &'a CheckedProgram,
    pub folder: &'a RunFolder,
    /// Rate of the link to remote memory.
    pub rate: Rate,
    pub seed: u64,
}

/// A finished run, and the load of the machine during it.
pub(crate) struct Made {
    pub done: Done,
    pub load: MachineLoad,
    pub warnings: Vec<Warning>,
}

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
    ) -> Result<Option<Made>, Error> {
        let (made, load) = beside(|| match task {
            Task::Native { .. } => self.natively(until),
            Task::Remote { local_bytes, delay_ns, .. } => {
                self.remotely(Bytes::new(local_bytes), delay_ns, known, until)
            }
        });
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
    pub(super) fn same_output(&self) -> bool {
        let read = |name| std::fs::read(self.folder.path(name));
        match (read(NATIVE_OUTPUT), read(REMOTE_OUTPUT)) {
            (Ok(one), Ok(other)) => one == other,
            _ => true,
        }
    }

    /// Returns the warning about different output.
    pub(super) fn output_differs(&self) -> Warning {
        let name = self.job.words().first().cloned().unwrap_or_default();
        let text = format!(
            "the output with remote memory differs from the native output: expected if {name} prints times or \
             anything else that changes from run to run, otherwise please report it"
        );
        Warning::new("output-differs", text)
    }
}

/// Reason why there is no run.
enum Ended {
    OutOfTime,
    Failed(Error),
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
    Err(Ended::Failed(Error::Failed(format!(
        "the program ended with status {code} when run {how}: see its output in {output}"
    ))))
}
