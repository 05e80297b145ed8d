//! Problems of a scenario, each shown at its place in the file.

use std::fmt;
use std::sync::Arc;

use crate::source::{Origin, Source, SourceRange};
use unrack_input::{WIDTH, clipped_to};

/// Largest number of problems shown, because a file with more problems is not a scenario.
const MOST_SHOWN: usize = 50;
/// Largest number of characters of a message, which may contain a value: four lines.
const MOST_MESSAGE: usize = 4 * WIDTH;
/// Number of characters shown before the marked ones, if the line is too long to be shown in full.
const BEFORE: usize = WIDTH / 4;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScenarioProblem {
    pub message: String,
    /// `None` if the problem has no place in a text, for example if a file cannot be read.
    pub place: Option<SourceRange>,
}

impl ScenarioProblem {
    /// Creates a problem at a place, or without a place.
    pub(crate) fn at(place: impl Into<Option<SourceRange>>, message: impl Into<String>) -> ScenarioProblem {
        ScenarioProblem { message: message.into(), place: place.into() }
    }
}

/// Problems of a scenario. Its text shows each problem with file, line and caret.
#[derive(Clone)]
pub struct ScenarioError {
    problems: Vec<ScenarioProblem>,
    /// Number of problems that were left out.
    more: usize,
    sources: Arc<Vec<Source>>,
}

impl ScenarioError {
    /// Creates the error. Problems are sorted by their place in the text, and duplicates are removed.
    pub(crate) fn new(mut problems: Vec<ScenarioProblem>, sources: Arc<Vec<Source>>) -> ScenarioError {
        problems.sort_by_key(|problem| problem.place);
        problems.dedup();
        let more = problems.len().saturating_sub(MOST_SHOWN);
        problems.truncate(MOST_SHOWN);
        for problem in &mut problems {
            problem.message = clipped_to(&problem.message, MOST_MESSAGE).into_owned();
        }
        ScenarioError { problems, more, sources }
    }

    /// Returns the messages without places, for use by programs.
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
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

/// Writes the line of the place, or the part of it that fits, with a caret under the marked text.
fn show(f: &mut fmt::Formatter, source: &Source, place: SourceRange) -> fmt::Result {
    let at = source.position(place);
    let (name, number) = match &source.origin {
        Origin::File { name, .. } => (format!("{name}:{}:{}", at.line, at.column), at.line.to_string()),
        Origin::Override => ("--set".into(), String::new()),
    };
    let gutter = " ".repeat(number.len());
    let (text, before) = window(at.text, at.column - 1);
    let indent: String = before.chars().map(|c| if c == '\t' { c } else { ' ' }).collect();
    let width = at.width.min(text.chars().count().saturating_sub(before.chars().count()).max(1));
    write!(f, "\n{gutter}--> {name}")?;
    write!(f, "\n{gutter} |")?;
    write!(f, "\n{number} | {text}")?;
    write!(f, "\n{gutter} | {indent}{}", "^".repeat(width))
}

/// Returns the part of a line that fits, and the part of that before character number `column`.
fn window(line: &str, column: usize) -> (&str, &str) {
    let place = |n| line.char_indices().nth(n).map_or(line.len(), |(at, _)| at);
    let from = if place(WIDTH) == line.len() { 0 } else { column.saturating_sub(BEFORE) };
    let (start, meant, end) = (place(from), place(column), place(from + WIDTH));
    (&line[start..end], &line[start..meant])
}
