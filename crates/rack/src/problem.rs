//! What is wrong with a scenario, shown where it is written.

use std::fmt;
use std::sync::Arc;

use crate::source::{Origin, Place, Source};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub message: String,
    /// `None` where there is no text to point at, such as a file that cannot be read.
    pub place: Option<Place>,
}

impl Problem {
    pub fn at(place: Place, message: impl Into<String>) -> Problem {
        Problem { message: message.into(), place: Some(place) }
    }
}

/// Everything that is wrong with a scenario. Its text shows each problem with file, line and caret.
#[derive(Clone)]
pub struct ScenarioError {
    problems: Vec<Problem>,
    sources: Arc<Vec<Source>>,
}

impl ScenarioError {
    /// In the order of the text. What was found twice is said once.
    pub(crate) fn new(mut problems: Vec<Problem>, sources: Arc<Vec<Source>>) -> ScenarioError {
        problems.sort_by_key(|problem| problem.place);
        problems.dedup();
        ScenarioError { problems, sources }
    }

    /// The messages alone, for a program to look at.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.problems.iter().map(|problem| problem.message.as_str())
    }
}

impl std::error::Error for ScenarioError {}

impl fmt::Debug for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let gap = if i == 0 { "" } else { "\n\n" };
            write!(f, "{gap}error: {}", problem.message)?;
            if let Some(place) = problem.place {
                show(f, &self.sources[place.source], place)?;
            }
        }
        Ok(())
    }
}

/// The line, and a caret under what is meant.
fn show(f: &mut fmt::Formatter, source: &Source, place: Place) -> fmt::Result {
    let at = source.position(place);
    let (name, number) = match &source.origin {
        Origin::File { name, .. } => (format!("{name}:{}:{}", at.line, at.column), at.line.to_string()),
        Origin::Override => ("--set".into(), String::new()),
    };
    let gutter = " ".repeat(number.len());
    let indent: String =
        at.text.chars().take(at.column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
    write!(f, "\n{gutter}--> {name}")?;
    write!(f, "\n{gutter} |")?;
    write!(f, "\n{number} | {}", at.text)?;
    write!(f, "\n{gutter} | {indent}{}", "^".repeat(at.width))
}
