//! The program of a question about pages, checked before anything is spent on it.

use super::apart::RunsApart;
use super::here::OwnRuns;
use super::kept::{Identity, Kept};
use super::maker::RunMaker;
use crate::asking::{Asking, RunsPlace};
use crate::budget::Budget;
use crate::error::Error;
use crate::folder;
use crate::steps::Steps;
use std::ffi::OsString;
use std::path::Path;
use unrack_build::build;
use unrack_record::{Purpose, RunFolder, Started};
use unrack_units::{Rate, Time};

/// Seed of the pager's choices where a question has none.
pub(crate) const SEED: u64 = 1;
/// Link rate of runs whose injected delays need not include transmission: high enough that it takes no time.
pub(crate) const FREE_LINK: Rate = Rate::from_gbps(10_000);

/// Program whose runs are to be made, and the time for them.
pub(crate) struct MeasuredProgram<M> {
    pub budget: Budget,
    pub maker: M,
    pub started: Started,
}

impl<'a> MeasuredProgram<Box<dyn RunMaker + 'a>> {
    /// Finds the program, whose runs are made where the caller says. The budget begins now.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input not be kept.
    pub(crate) fn prepare(
        command: &[OsString],
        budget: Option<Time>,
        asking: Asking<'a>,
    ) -> Result<MeasuredProgram<Box<dyn RunMaker + 'a>>, Error> {
        let budget = Budget::new(budget);
        let maker: Box<dyn RunMaker + 'a> = match asking.runs {
            RunsPlace::ThisProcess => Box::new(OwnRuns::prepare(command)?),
            RunsPlace::Command(path) => Box::new(RunsApart::start(path, command, asking)?),
        };
        Ok(MeasuredProgram { budget, maker, started: Started::now(build()) })
    }
}

impl MeasuredProgram<OwnRuns> {
    /// Finds the program, whose runs this process makes. The budget begins now.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input not be kept.
    pub(crate) fn here(
        command: &[OsString],
        budget: Option<Time>,
    ) -> Result<MeasuredProgram<OwnRuns>, Error> {
        let budget = Budget::new(budget);
        let maker = OwnRuns::prepare(command)?;
        Ok(MeasuredProgram { budget, maker, started: Started::now(build()) })
    }
}

/// Creates the run folder of a question that may ask for other shares and delays of the same runs.
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
    folder::create(out, &Purpose::new(verb, words.join(" "), question.to_string()), replace)
}

/// Opens the runs of this program that the folder has.
pub(crate) fn kept_of<'a>(maker: &dyn RunMaker, folder: &'a RunFolder, steps: &Steps) -> Kept<'a> {
    let program = maker.identity().unwrap_or_default();
    let of = Identity { sources: build().sources, program, seed: SEED };
    // Standard input may have other bytes next time.
    Kept::open(folder, of, maker.is_repeatable(), steps)
}

/// Fails if so many rounds are too few or too many.
///
/// # Errors
/// If they are: with their range.
pub(crate) fn check_repeat(rounds: u32) -> Result<(), Error> {
    match rounds {
        1..=100 => Ok(()),
        _ => Err(Error::Usage(format!("{rounds} rounds of runs cannot be made: give 1 to 100"))),
    }
}
