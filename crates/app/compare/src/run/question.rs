//! Question of one run with part of the program's memory remote.

use super::answer::{Ran, RunAnswer};
use super::asked::{AskedDelay, local_of};
use crate::error::Error;
use crate::load::beside_program;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use unrack_build::build;
use unrack_paging::{
    CaptureTo, CheckedProgram, FaultMode, Input, MemoryNodes, OneRun, OutputTarget, Placeholder, RemoteNodes,
    RunReport, RunSetup, Weighing, calibrate_undisturbed, expected, footprint, measure,
};
use unrack_record::{StartedCommand, Stated, Warning};
use unrack_units::{Bytes, Share};

/// Question how long a program takes with part of its memory remote. The program runs once, with the input and output of this process.
#[derive(Debug, Clone)]
pub struct RunQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Memory that stays local.
    pub local: Share,
    /// Footprint to which a share of local memory refers. `None`: a native run measures it.
    pub footprint: Option<Bytes>,
    /// Whether a footprint that was measured before is used.
    pub remembers: bool,
    /// Delay of a fetch.
    pub delay: AskedDelay,
    /// Seed of drawn delays.
    pub seed: u64,
    /// Place where page faults are handled.
    pub mode: FaultMode,
    /// Memory nodes that hold remote pages, with their keys.
    pub remote: Option<MemoryNodes>,
    /// Time after which a thread that waits for a page from a memory node is reported.
    pub page_timeout: Duration,
    /// File to which every page transfer is written.
    pub capture: Option<PathBuf>,
    /// Maximum number of pages that are fetched ahead.
    pub read_ahead: u32,
    /// Time for which processes that outlive the program may continue to run.
    pub grace: Option<Duration>,
}

impl RunQuestion {
    /// Runs the program, in `placeholder` if one was reserved for it.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, or a run fails.
    pub fn ask(&self, placeholder: Option<&Placeholder>) -> Result<RunAnswer, Error> {
        let started = StartedCommand::now(build());
        let mut job = CheckedProgram::prepare(&self.command)?;
        self.mode.check()?;
        let delay = self.delay.delay(self.remote.is_some())?;
        let weighing = self.weigh(&mut job)?;
        let footprint = self.footprint.or(weighing.map(|weighing| weighing.footprint.bytes()));
        let local = local_of(self.local, footprint)?;
        if let Some(nodes) = &self.remote {
            nodes.greet(self.page_timeout)?;
        }
        let (calibration, disturbance) = calibrate_undisturbed(self.mode, None)?;
        let setup = RunSetup {
            local,
            footprint,
            delay: &delay,
            calibration,
            seed: self.seed,
            capture: self.capture.as_deref().map(|path| CaptureTo { path, native_s: None }),
            nodes: self.remote.as_ref().map(|at| RemoteNodes { at, page_timeout: self.page_timeout }),
            output: OutputTarget::Inherited,
            until: None,
            placeholder,
            grace: self.grace,
            read_ahead: self.read_ahead,
        };
        let (report, load) = beside_program(placeholder.map(Placeholder::pid), || measure(&job, &setup));
        let disturbance = disturbance.or_else(|| load.disturbance());
        let ran = self.ran(&job, &setup, (weighing, disturbance), &report?);
        Ok(RunAnswer::new(&started, ran))
    }

    /// Measures the footprint, if it is not given and local memory is a share of it. A native run that measures the footprint must not
    /// consume the program's input.
    fn weigh(&self, job: &mut CheckedProgram) -> Result<Option<Weighing>, Error> {
        if matches!(self.local, Share::Size(_)) || self.footprint.is_some() {
            return Ok(None);
        }
        job.input = Input::repeatable()?;
        let weighing = footprint(job, self.remembers.then(build).as_ref())?;
        weighing.footprint.check()?;
        if let Input::Empty = job.input {
            job.input = Input::Inherited;
        }
        Ok(Some(weighing))
    }

    /// Collects the results of the run.
    fn ran<'a>(
        &self,
        job: &CheckedProgram,
        setup: &RunSetup<'a>,
        (weighing, disturbance): (Option<Weighing>, Option<Warning>),
        report: &RunReport,
    ) -> Ran<'a> {
        let native_s = weighing.and_then(|weighing| weighing.native_s());
        let concluded = || match (disturbance, weighing) {
            (Some(why), _) => Stated::withheld(disturbed(&format!("other work disturbed this run ({why})"))),
            (None, Some(weighing)) if weighing.is_disturbed => {
                Stated::withheld(disturbed("other work disturbed the native run"))
            }
            (None, _) => expected(&one_run(setup, report), native_s),
        };
        let kept = weighing.and_then(|weighing| weighing.footprint.kept_warning());
        Ran {
            command: job.words(),
            pid: None,
            taken_s: None,
            exit_status: Some(report.status.code()),
            share: self.local,
            local: setup.local,
            footprint_bytes: setup.footprint.map(Bytes::get),
            delay: setup.delay,
            is_drawn: self.delay.is_drawn(),
            remote: self.remote.as_ref().map(ToString::to_string),
            nodes: report.nodes.clone(),
            wall_s: report.wall_s,
            native_s,
            expected: self.remote.is_none().then(concluded),
            memory: report.local,
            calibration: setup.calibration,
            tally: report.tally,
            warnings: [report.warnings.clone(), kept.into_iter().collect()].concat(),
        }
    }
}

/// Returns the warning that the expected run time is withheld because of other work.
fn disturbed(what: &str) -> Warning {
    let advice = "stop other work on this machine, or keep it from the cores of this command (taskset), and run it again with \
                  --no-cache";
    Warning::new("disturbed", format!("{what}: {advice}"))
}

/// Returns the times of a run.
fn one_run(setup: &RunSetup, report: &RunReport) -> OneRun {
    OneRun {
        wall_s: report.wall_s,
        lost_s: report.tally.pager_ns as f64 / 1e9,
        waits_s: report.tally.fetches as f64 * setup.delay.mean_ns() / 1e9,
        threads: report.tally.threads,
    }
}
