//! Runs under swap.

use crate::error::Error;
use crate::load::beside;
use crate::runs::survey::Survey;
use crate::runs::task::with_median;
use std::ffi::OsString;
use unrack_paging::{CheckedProgram, MachineLoad, OutputTarget, PagingError, native};
use unrack_record::{Runs, Warning};
use unrack_swap::{KernelSwap, SwapCounts};
use unrack_units::Bytes;

/// Undisturbed runs of the program under swap.
pub(super) struct UnderSwap {
    /// Contents of some of the program's pages.
    pub pages: Vec<u8>,
    made: Vec<(f64, SwapCounts)>,
    /// Reason why the last disturbed run was not used.
    disturbed: Option<Warning>,
}

/// Output of the program, in the run folder.
const OUTPUT: &str = "swap.out";
/// Maximum number of runs for each wanted undisturbed run.
const ATTEMPTS: u32 = 2;

impl UnderSwap {
    /// Makes `wanted` undisturbed runs with `local` memory, or as many as the budget and the machine allow.
    pub(super) fn measure(
        swap: &KernelSwap,
        survey: &Survey,
        job: &CheckedProgram,
        (local, wanted): (Bytes, u32),
    ) -> Result<UnderSwap, Error> {
        let job = in_group(swap, job)?;
        survey.steps.begin("a look at its pages")?;
        let output = OutputTarget::Piped(survey.runner.folder.path(OUTPUT));
        let (ran, pages) = swap.sample(|| native(&job, &output, survey.budget.deadline()))?;
        let mut found = UnderSwap { pages, made: Vec::new(), disturbed: None };
        match ran {
            Err(PagingError::OutOfTime) => return Ok(found),
            ran => _ = ran?,
        }
        for attempt in 1..=wanted * ATTEMPTS {
            let longest = found.made.iter().map(|(s, _)| *s).fold(survey.pace_s(), f64::max);
            if found.made.len() as u32 == wanted || !survey.budget.allows(longest) {
                break;
            }
            survey.steps.begin(format!("under swap, run {attempt}"))?;
            let Some((wall_s, counts, load)) = one(swap, survey, &job, local)? else { break };
            match load.disturbance() {
                Some(why) => found.disturbed = Some(why),
                None => found.made.push((wall_s, counts)),
            }
        }
        Ok(found)
    }

    /// Returns the run times.
    ///
    /// # Errors
    /// If there is no run: the reason.
    pub(super) fn runs(&self, survey: &Survey) -> Result<Runs, Warning> {
        match self.made.is_empty() {
            false => Ok(with_median(self.made.iter().map(|(s, _)| *s).collect())),
            true => {
                let budget =
                    Warning::new("budget", format!("no run under swap within {}", survey.budget.text()));
                Err(self.disturbed.clone().unwrap_or(budget))
            }
        }
    }

    /// Returns the counts of the run with the median time.
    pub(super) fn counts(&self) -> SwapCounts {
        let mut made = self.made.clone();
        made.sort_by(|a, b| a.0.total_cmp(&b.0));
        made.get(made.len() / 2).map_or_else(SwapCounts::default, |(_, counts)| *counts)
    }
}

/// Returns a program that runs `job` in the control group whose memory is limited.
fn in_group(swap: &KernelSwap, job: &CheckedProgram) -> Result<CheckedProgram, Error> {
    let words: Vec<OsString> = swap.command(job.command());
    let mut inside = CheckedProgram::prepare(&words)?;
    inside.input = job.input.clone();
    Ok(inside)
}

/// Makes one run; `None` if the budget ended first.
fn one(
    swap: &KernelSwap,
    survey: &Survey,
    job: &CheckedProgram,
    local: Bytes,
) -> Result<Option<(f64, SwapCounts, MachineLoad)>, Error> {
    let output = survey.runner.folder.path(OUTPUT);
    let target = OutputTarget::Piped(output.clone());
    let (ran, load) = beside(|| swap.run(local, || native(job, &target, survey.budget.deadline())));
    let (ran, counts) = ran?;
    let ran = match ran {
        Err(PagingError::OutOfTime) => return Ok(None),
        ran => ran?,
    };
    if !ran.status.is_success() {
        return Err(Error::Failed(format!(
            "the program ended with status {} under swap: see its output in {}",
            ran.status.code(),
            output.display()
        )));
    }
    Ok(Some((ran.wall_s, counts, load)))
}
