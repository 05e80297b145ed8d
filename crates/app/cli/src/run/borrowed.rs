//! `unrack run --pid`: memory of a process that runs already, taken away for a while.

use super::Args;
use super::outputs::Target;
use super::summary::{Ran, Summary, size};
use crate::failure::{Failure, say};
use std::process::ExitCode;
use unrack_build::build;
use unrack_paging::{BorrowReport, BorrowSetup, FaultMode, RunningProgram, borrow, calibrate};
use unrack_record::Started;
use unrack_units::Share;

/// Runs `unrack run --pid`. The status is 0 if all was given back, else that of the program, which ended before.
pub(super) fn main(args: &Args, pid: u32) -> Result<ExitCode, Failure> {
    let started = Started::now(build());
    let program = RunningProgram::find(pid)?;
    let delay = args.delay()?;
    let json = args.json.as_deref().map(Target::check).transpose()?;
    let footprint = program.footprint(args.tree)?.bytes();
    let local = args.local_bytes(Some(footprint))?;
    program.check_headroom(footprint, local)?;
    let calibration = calibrate(FaultMode::Blocking, None)?;
    let time = args.time;
    let seed = args.seed;
    let with_children = args.tree;
    let setup = BorrowSetup {
        program: &program,
        with_children,
        local,
        footprint,
        delay: &delay,
        calibration,
        seed,
        time,
    };
    let of = match args.local {
        Share::Fraction(_) => format!("{} of the", args.local),
        Share::Size(_) => format!("{} of the", size(local.get())),
    };
    let whom = if args.tree { " and all that it has started" } else { "" };
    say(&format!(
        "taking memory from {}{whom}: {of} {} that it has now stay local ({})",
        program.title(),
        size(footprint.get()),
        size(local.get())
    ));
    let report = borrow(&setup)?;
    let status = status(&report);
    say(&ending(&program, &report));
    let ran = Ran {
        command: program.words().to_vec(),
        pid: Some(pid),
        taken_s: report.taken_s,
        exit_status: report.status.map(|status| status.code()),
        local,
        footprint_bytes: Some(footprint.get()),
        delay: &delay,
        wall_s: report.wall_s,
        native_s: None,
        expected: None,
        memory: report.local,
        calibration,
        tally: report.tally,
        warnings: report.warnings,
    };
    let summary = Summary::new(args, &started, ran);
    if let Some(target) = json {
        target.write_json(&summary)?;
    }
    summary.lines().iter().for_each(|line| say(line));
    Ok(ExitCode::from(status))
}

fn status(report: &BorrowReport) -> u8 {
    match (report.has_ended, report.status) {
        (false, _) => 0,
        (true, Some(end)) => end.code(),
        (true, None) => FAILED,
    }
}

/// Status for a program that ended nobody knows how.
const FAILED: u8 = 1;

fn ending(program: &RunningProgram, report: &BorrowReport) -> String {
    match (report.has_ended, report.status) {
        (false, _) => format!("all memory of {} was given back", program.title()),
        (true, Some(status)) => format!("{} ended with status {}", program.title(), status.code()),
        (true, None) => format!("{} ended", program.title()),
    }
}
