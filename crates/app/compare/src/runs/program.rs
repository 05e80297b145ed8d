//! The program of a question about pages, checked before anything is spent on it.

use super::kept::{Identity, Kept};
use crate::budget::Budget;
use crate::error::Error;
use crate::folder;
use crate::steps::Steps;
use std::ffi::OsString;
use std::path::Path;
use unrack_build::build;
use unrack_paging::{CheckedProgram, Input};
use unrack_record::{Purpose, RunFolder, Started};
use unrack_units::{Rate, Time};

/// Seed of the pager's choices where a question has none.
pub(crate) const SEED: u64 = 1;
/// Link rate of runs whose injected delays need not include transmission: high enough that it takes no time.
pub(crate) const FREE_LINK: Rate = Rate::from_gbps(10_000);

/// Program whose runs are to be made, and the time for them.
pub(crate) struct MeasuredProgram {
    pub budget: Budget,
    pub job: CheckedProgram,
    pub started: Started,
}

impl MeasuredProgram {
    /// Finds the program, and makes its input readable for every run. The budget begins now.
    ///
    /// # Errors
    /// If the program cannot be found or run, or its input not be kept.
    pub(crate) fn prepare(command: &[OsString], budget: Option<Time>) -> Result<MeasuredProgram, Error> {
        let budget = Budget::new(budget);
        let mut job = CheckedProgram::prepare(command)?;
        job.input = Input::repeatable()?;
        Ok(MeasuredProgram { budget, job, started: Started::now(build()) })
    }

    /// Creates the run folder of a question that may ask for other shares and delays of the same runs.
    ///
    /// # Errors
    /// If another run is in the way, or the folder cannot be written.
    pub(crate) fn folder(&self, verb: &str, out: &Path, replace: bool) -> Result<RunFolder, Error> {
        let words = self.job.words();
        let question = serde_json::json!({ "command": words, "folder": std::env::current_dir().ok() });
        folder::create(out, &Purpose::new(verb, words.join(" "), question.to_string()), replace)
    }

    /// Opens the runs of this program that the folder has.
    pub(crate) fn kept<'a>(&self, folder: &'a RunFolder, steps: &Steps) -> Kept<'a> {
        let program = self.job.identity().unwrap_or_default();
        let of = Identity { sources: build().sources, program, seed: SEED };
        // Standard input may have other bytes next time.
        Kept::open(folder, of, matches!(self.job.input, Input::Empty), steps)
    }
}
