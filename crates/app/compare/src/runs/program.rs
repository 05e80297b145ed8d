//! The program of a question about pages, which is checked before any time is spent on it.

use super::apart::RunsApart;
use super::here::OwnRuns;
use super::kept::{KeptRuns, RunsIdentity};
use super::maker::RunMaker;
use crate::asking::{QuestionCaller, RunsPlace};
use crate::budget::RunBudget;
use crate::error::Error;
use crate::folder;
use crate::steps::QuestionSteps;
use std::ffi::OsString;
use std::path::Path;
use unrack_build::build;
use unrack_record::{RunFolder, RunPurpose, StartedCommand};
use unrack_units::{Rate, Time};

/// Seed of the pager's random choices, for questions without a seed.
pub(crate) const SEED: u64 = 1;
/// Link rate of runs whose injected delays need not include transmission. It is so high that transmission takes practically no time.
pub(crate) const FREE_LINK: Rate = Rate::from_gbps(10_000);

/// A program to be run, and the time budget for its runs.
pub(crate) struct MeasuredProgram<M> {
    pub budget: RunBudget,
    pub maker: M,
    pub started: StartedCommand,
}

impl<'a> MeasuredProgram<Box<dyn RunMaker + 'a>> {
    /// Finds the program. The caller decides where its runs are made. The budget starts now.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input cannot be stored.
    pub(crate) fn prepare(
        command: &[OsString],
        budget: Option<Time>,
        asking: QuestionCaller<'a>,
    ) -> Result<MeasuredProgram<Box<dyn RunMaker + 'a>>, Error> {
        let budget = RunBudget::new(budget);
        let maker: Box<dyn RunMaker + 'a> = match asking.runs {
            RunsPlace::ThisProcess => Box::new(OwnRuns::prepare(command)?),
            RunsPlace::Command(path) => Box::new(RunsApart::start(path, command, asking)?),
        };
        Ok(MeasuredProgram { budget, maker, started: StartedCommand::now(build()) })
    }
}

impl MeasuredProgram<OwnRuns> {
    /// Finds the program, which this process runs itself. The budget starts now.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input cannot be stored.
    pub(crate) fn here(
        command: &[OsString],
        budget: Option<Time>,
    ) -> Result<MeasuredProgram<OwnRuns>, Error> {
        let budget = RunBudget::new(budget);
        let maker = OwnRuns::prepare(command)?;
        Ok(MeasuredProgram { budget, maker, started: StartedCommand::now(build()) })
    }
}

/// Creates the run folder of a question. The purpose of the folder has neither local shares nor delays, because questions with other shares
/// and delays may continue the same runs.
///
/// # Errors
/// If another run is in the way, or the folder cannot be written.
pub(crate) fn folder_of(
    maker: &dyn RunMaker,
    verb: &str,
    out: &Path,
    replace: bool,
) -> Result<RunFolder, Error> {
    let words = maker.words();
    let question = serde_json::json!({ "command": words, "folder": std::env::current_dir().ok() });
    folder::create(out, &RunPurpose::new(verb, words.join(" "), question.to_string()), replace)
}

/// Opens the stored runs of this program in the folder.
pub(crate) fn kept_of<'a>(
    maker: &dyn RunMaker,
    folder: &'a RunFolder,
    steps: &QuestionSteps,
) -> KeptRuns<'a> {
    let program = maker.identity().unwrap_or_default();
    let of = RunsIdentity { sources: build().sources, program, seed: SEED };
    // Runs are reused only if the input is repeatable: standard input may have different bytes next time.
    KeptRuns::open(folder, of, maker.is_repeatable(), steps)
}

/// Checks the number of rounds.
///
/// # Errors
/// If `rounds` is too small or too large: the text states the range.
pub(crate) fn check_repeat(rounds: u32) -> Result<(), Error> {
    match rounds {
        1..=100 => Ok(()),
        _ => Err(Error::Usage(format!("{rounds} rounds of runs cannot be made: give 1 to 100"))),
    }
}
