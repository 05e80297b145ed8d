//! Runs of one program, natively and with part of its memory remote, as `compare` and `map` need them.

pub mod line;
pub mod progress;

use crate::failure::Failure;
use progress::Steps;
use std::path::Path;
use unrack_paging::{Calibration, CaptureTo, Delay, Job, Output, RunReport, Setup, Status, measure, native};
use unrack_record::{RunFolder, Runs};
use unrack_units::{Bytes, Rate, Time};

/// What a run of the program takes.
pub struct Runner<'a> {
    pub job: &'a Job,
    pub folder: &'a RunFolder,
    pub steps: &'a Steps,
    /// Of the link to remote memory.
    pub rate: Rate,
    pub seed: u64,
}

/// Where a run's output goes, in the run folder.
const NATIVE_OUTPUT: &str = "native.out";
const REMOTE_OUTPUT: &str = "remote.out";

/// What a run takes, in native runs, before anything is known: with remote memory it also waits for the
/// pager.
pub const NATIVE: f64 = 1.0;
pub const REMOTE: f64 = 2.0;

impl Runner<'_> {
    /// A run as it is: seconds, and the footprint.
    pub fn natively(&self, what: String) -> Result<(f64, Bytes), Failure> {
        self.steps.begin(what);
        let output = self.folder.path(NATIVE_OUTPUT);
        let run = native(self.job, &Output::File(output.clone()))?;
        check_status(run.status, "natively", &output)?;
        run.footprint.check()?;
        self.steps.done(NATIVE);
        Ok((run.wall_s, run.footprint.bytes()))
    }

    /// A run with remote memory, reckoned to take as long as `native_runs`.
    pub fn remotely(
        &self,
        what: String,
        native_runs: f64,
        remote: &Remote,
        capture: Option<CaptureTo>,
    ) -> Result<RunReport, Failure> {
        self.steps.begin(what);
        let output = self.folder.path(REMOTE_OUTPUT);
        let delay = &self.delay(remote.delay_ns);
        let Remote { local, calibration, .. } = *remote;
        let setup = Setup {
            local,
            delay,
            calibration,
            seed: self.seed,
            capture,
            node: None,
            output: Output::File(output.clone()),
        };
        let report = measure(self.job, &setup)?;
        check_status(report.status, "with remote memory", &output)?;
        self.steps.done(native_runs);
        Ok(report)
    }

    /// Of so much in all, transmission included.
    pub fn delay(&self, whole_ns: f64) -> Delay {
        let transmission = self.rate.transmit(PAGE);
        let whole = Time::from_secs_f64(whole_ns.max(0.0) / 1e9);
        Delay::constant(whole.saturating_sub(transmission), self.rate)
    }

    /// Whether the last run with remote memory wrote what the last native one did.
    pub fn same_output(&self) -> bool {
        let read = |name| std::fs::read(self.folder.path(name));
        matches!((read(NATIVE_OUTPUT), read(REMOTE_OUTPUT)), (Ok(one), Ok(other)) if one == other)
    }

    /// What to check when it did not.
    pub fn output_differs(&self) -> String {
        let name = self.job.words().first().cloned().unwrap_or_default();
        format!(
            "the output with remote memory differs from the native one: expected if {name} prints times or \
             anything else that changes from run to run, else please report it"
        )
    }
}

pub const PAGE: Bytes = Bytes::new(4096);

/// How much is local, and what a fetch takes.
pub struct Remote {
    pub local: Bytes,
    pub delay_ns: f64,
    pub calibration: Calibration,
}

fn check_status(status: Status, how: &str, output: &Path) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let (code, output) = (status.code(), output.display());
    Err(Failure::Failed(format!(
        "the program ended with status {code} when run {how}; its output is in {output}"
    )))
}

pub fn with_median(seconds: Vec<f64>) -> Runs {
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median_s =
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Runs { seconds, median_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(with_median(vec![4.0, 1.0, 2.0, 9.0]).median_s, 3.0);
        assert_eq!(with_median(vec![4.0, 1.0, 9.0]).median_s, 4.0);
    }
}
