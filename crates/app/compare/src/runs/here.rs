//! Runs of a program that this process makes itself.

use super::maker::{Made, MeasuredCost, RunMaker, RunOrder};
use super::task::{MeasurementTask, PagerCost, TaskResult};
use crate::error::Error;
use crate::load::{self, HostLoad, beside};
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;
use unrack_paging::{
    Calibration, CaptureTo, CheckedProgram, FaultMode, Input, NOT_AWAY, OutputTarget, PagingError,
    ProgramEnd, RunSetup, calibrate_undisturbed, measure, native,
};
use unrack_record::Warning;
use unrack_units::Bytes;

/// Program whose runs this process makes.
pub(crate) struct OwnRuns {
    pub job: CheckedProgram,
}

impl OwnRuns {
    /// Finds the program, and makes the input of this process readable for every run.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input cannot be stored.
    pub(crate) fn prepare(command: &[OsString]) -> Result<OwnRuns, Error> {
        let mut job = CheckedProgram::prepare(command)?;
        job.input = Input::repeatable()?;
        Ok(OwnRuns { job })
    }

    fn natively(
        &self,
        order: &RunOrder,
        until: Option<Instant>,
    ) -> Result<(TaskResult, Vec<Warning>), MissingRun> {
        let output = order.native_output();
        let run = native(&self.job, &OutputTarget::File(output.clone()), until)?;
        check_status(run.status, "natively", &output)?;
        run.footprint.check()?;
        let footprint_bytes = run.footprint.bytes().get();
        let warnings = run.footprint.kept_warning().into_iter().collect();
        Ok((TaskResult { wall_s: run.wall_s, footprint_bytes, ..TaskResult::default() }, warnings))
    }

    fn remotely(
        &self,
        order: &RunOrder,
        (local, delay_ns): (Bytes, f64),
        until: Option<Instant>,
    ) -> Result<(TaskResult, Vec<Warning>), MissingRun> {
        let (output, trace) = (order.remote_output(), order.folder.join("trace.parquet"));
        let known = &order.known;
        let delay = &order.delay(delay_ns);
        let is_captured = delay_ns == 0.0 && known.captured_local == Some(local);
        let to = CaptureTo { path: &trace, native_s: known.native_s };
        let setup = RunSetup {
            local,
            footprint: Some(known.footprint),
            delay,
            calibration: calibration(known.cost),
            seed: order.seed,
            capture: is_captured.then_some(to),
            nodes: None,
            output: OutputTarget::File(output.clone()),
            until,
            placeholder: None,
            grace: None,
            read_ahead: 0,
        };
        let report = measure(&self.job, &setup)?;
        check_status(report.status, "with remote memory", &output)?;
        let (wall_s, tally) = (report.wall_s, report.tally);
        let (fetches, write_backs, threads) = (tally.fetches, tally.write_backs, tally.threads);
        let not_away = report.warnings.iter().any(|warning| warning.key == NOT_AWAY);
        let overhead_s = tally.overhead_ns as f64 / 1e9;
        let late_s = (tally.wait_ns as f64 - tally.fetches as f64 * delay_ns).max(0.0) / 1e9;
        let done = TaskResult {
            wall_s,
            fetches,
            write_backs,
            threads,
            overhead_s,
            late_s,
            not_away,
            ..TaskResult::default()
        };
        Ok((done, report.warnings))
    }
}

impl RunMaker for OwnRuns {
    fn words(&self) -> Vec<String> {
        self.job.words()
    }

    fn identity(&self) -> Option<String> {
        self.job.identity()
    }

    fn is_repeatable(&self) -> bool {
        matches!(self.job.input, Input::Empty)
    }

    fn look(&self) -> Result<HostLoad, Error> {
        Ok(load::look())
    }

    fn measure_cost(&self, until: Option<Instant>) -> Result<Option<MeasuredCost>, Error> {
        match calibrate_undisturbed(FaultMode::Blocking, until) {
            Err(PagingError::OutOfTime) => Ok(None),
            measured => {
                let (Calibration { floor_ns, unseen_ns, .. }, disturbance) = measured?;
                let cost = PagerCost { floor_ns, unseen_ns };
                Ok(Some(MeasuredCost { cost, is_disturbed: disturbance.is_some() }))
            }
        }
    }

    fn make(&self, order: &RunOrder, until: Option<Instant>) -> Result<Option<Made>, Error> {
        let (made, load) = beside(|| match order.task {
            MeasurementTask::Native { .. } => self.natively(order, until),
            MeasurementTask::Remote { local_bytes, delay_ns, .. } => {
                self.remotely(order, (Bytes::new(local_bytes), delay_ns), until)
            }
        });
        match made {
            Ok((done, warnings)) => Ok(Some(Made { done, load: load.into(), warnings })),
            Err(MissingRun::OutOfTime) => Ok(None),
            Err(MissingRun::Failed(why)) => Err(why),
        }
    }
}

fn calibration(cost: PagerCost) -> Calibration {
    Calibration { mode: FaultMode::Blocking, floor_ns: cost.floor_ns, unseen_ns: cost.unseen_ns }
}

/// Reason why there is no run.
enum MissingRun {
    OutOfTime,
    Failed(Error),
}

impl From<PagingError> for MissingRun {
    fn from(error: PagingError) -> MissingRun {
        match error {
            PagingError::OutOfTime => MissingRun::OutOfTime,
            other => MissingRun::Failed(other.into()),
        }
    }
}

fn check_status(status: ProgramEnd, how: &str, output: &Path) -> Result<(), MissingRun> {
    if status.is_success() {
        return Ok(());
    }
    let (code, output) = (status.code(), output.display());
    Err(MissingRun::Failed(Error::Failed(format!(
        "the program ended with status {code} when run {how}: see its output in {output}"
    ))))
}
