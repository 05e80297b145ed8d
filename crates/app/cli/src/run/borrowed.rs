//! `unrack run --pid`: makes part of a running process's memory remote for a while.

use super::outputs::WriteTarget;
use super::summary::lines;
use crate::failure::{CommandFailure, say};
use crate::steps::{SaidSteps, asking};
use std::process::ExitCode;
use unrack_compare::{BorrowAnswer, BorrowQuestion};

/// Exit status if the process ended and its exit status is unknown.
const FAILED: u8 = 1;

/// Runs `unrack run --pid`. The exit status is 0 if all memory was returned to the process. If the process ended before that, the exit
/// status is that of the process.
pub(super) fn main(
    question: &BorrowQuestion,
    json: Option<&WriteTarget>,
) -> Result<ExitCode, CommandFailure> {
    let answer = question.ask(asking(&SaidSteps))?;
    say(&ending(&answer));
    json.iter().try_for_each(|target| target.write_json(&answer.run))?;
    lines(&answer.run).iter().for_each(|line| say(line));
    Ok(ExitCode::from(status(&answer)))
}

fn status(answer: &BorrowAnswer) -> u8 {
    match (answer.has_ended, answer.end) {
        (false, _) => 0,
        (true, Some(end)) => end.code(),
        (true, None) => FAILED,
    }
}

fn ending(answer: &BorrowAnswer) -> String {
    let title = &answer.title;
    match (answer.has_ended, answer.end) {
        (false, _) => format!("all memory of {title} was given back"),
        (true, Some(end)) => format!("{title} ended with status {}", end.code()),
        (true, None) => format!("{title} ended"),
    }
}
