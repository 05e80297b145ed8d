//! Question about a process that already runs: part of its memory is made remote for a while.

use super::answer::{Ran, RunAnswer, size_text};
use super::asked::{AskedDelay, local_of};
use crate::asking::QuestionCaller;
use crate::error::Error;
use std::time::Duration;
use unrack_build::build;
use unrack_paging::{BorrowSetup, FaultMode, ProgramEnd, RunningProgram, borrow, calibrate};
use unrack_record::StartedCommand;
use unrack_units::Share;

/// Question how a running process is affected while part of its memory is remote.
#[derive(Debug, Clone)]
pub struct BorrowQuestion {
    pub pid: u32,
    /// Whether memory is also taken from the processes that this process has started.
    pub with_children: bool,
    /// Part of its present memory that stays local.
    pub local: Share,
    /// Delay of a fetch.
    pub delay: AskedDelay,
    /// Seed of drawn delays.
    pub seed: u64,
    /// Time after which the memory is returned. `None`: it is returned when a signal requests it, or when the process ends.
    pub time: Option<Duration>,
}

/// Answer to a [`BorrowQuestion`].
#[derive(Debug, Clone)]
pub struct BorrowAnswer {
    pub run: RunAnswer,
    /// Name of the process, for messages.
    pub title: String,
    /// Whether the process ended before all of its memory was returned.
    pub has_ended: bool,
    /// How the process ended, if it has ended and its status is known.
    pub end: Option<ProgramEnd>,
}

impl BorrowQuestion {
    /// Makes part of the process's memory remote, waits, and returns the memory.
    ///
    /// # Errors
    /// If this is impossible with this process, which then stays unchanged, or if its pager failed.
    pub fn ask(&self, asking: QuestionCaller) -> Result<BorrowAnswer, Error> {
        let started = StartedCommand::now(build());
        let program = RunningProgram::find(self.pid)?;
        let delay = self.delay.delay(false)?;
        let footprint = program.footprint(self.with_children)?.bytes();
        let local = local_of(self.local, Some(footprint))?;
        program.check_headroom(footprint, local)?;
        let calibration = calibrate(FaultMode::Blocking, None)?;
        let setup = BorrowSetup {
            program: &program,
            with_children: self.with_children,
            local,
            footprint,
            delay: &delay,
            calibration,
            seed: self.seed,
            time: self.time,
        };
        let of = match self.local {
            Share::Fraction(_) => self.local.to_string(),
            Share::Size(_) => size_text(local.get()),
        };
        let whom = if self.with_children { " and all that it has started" } else { "" };
        asking.progress.say(&format!(
            "taking memory from {}{whom}: {of} of the {} that it has now stay local ({})",
            program.title(),
            size_text(footprint.get()),
            size_text(local.get())
        ));
        let report = borrow(&setup)?;
        let ran = Ran {
            command: program.words().to_vec(),
            pid: Some(self.pid),
            taken_s: report.taken_s,
            exit_status: report.status.map(|status| status.code()),
            share: self.local,
            local,
            footprint_bytes: Some(footprint.get()),
            delay: &delay,
            is_drawn: self.delay.is_drawn(),
            remote: None,
            nodes: Vec::new(),
            wall_s: report.wall_s,
            native_s: None,
            expected: None,
            memory: report.local,
            calibration,
            tally: report.tally,
            warnings: report.warnings,
        };
        let run = RunAnswer::new(&started, ran);
        Ok(BorrowAnswer { run, title: program.title(), has_ended: report.has_ended, end: report.status })
    }
}
