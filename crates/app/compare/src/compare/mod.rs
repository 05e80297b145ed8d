//! Comparison of fabrics by the slowdown that a program has on each: the main purpose of the crate.

mod line_fabrics;
mod lines;
mod measured;
mod pages;
pub(crate) mod question;
pub(crate) mod rack;
mod requirements;
mod simulated;

use crate::asking::QuestionCaller;
use crate::error::Error;
use question::ComparisonQuestion;
use std::path::PathBuf;
use unrack_record::{AccessUnit, Comparison, LinesSummary};

/// Answer to a [`ComparisonQuestion`].
#[derive(Debug, Clone)]
pub struct ComparisonAnswer {
    pub found: ComparisonFound,
    /// The slowdowns are estimated from pages.
    pub report: PathBuf,
}

/// The slowdowns are estimated from loads and stores, or from these and page faults.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(untagged)]
pub enum ComparisonFound {
    /// By pages.
    Pages(Box<Comparison>),
    /// By lines, or by both.
    Lines(Box<LinesSummary>),
}

impl ComparisonQuestion {
    /// Runs the program, simulates the fabrics, and writes the run folder with the report.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, a run fails, or the question is canceled.
    pub fn ask(&self, asking: QuestionCaller) -> Result<ComparisonAnswer, Error> {
        self.check()?;
        let (found, report) = match self.access {
            AccessUnit::Pages => {
                let (comparison, report) = pages::ask(self, asking)?;
                (ComparisonFound::Pages(Box::new(comparison)), report)
            }
            AccessUnit::Lines | AccessUnit::Both => {
                let (summary, report) = lines::ask(self, asking)?;
                (ComparisonFound::Lines(Box::new(summary)), report)
            }
        };
        Ok(ComparisonAnswer { found, report })
    }
}
