//! Mechanisms that are broken on purpose, and the figures that notice.
//!
//! A study whose figures are the same without the mechanism that it studies shows nothing. Therefore the file of each study
//! names mechanisms to break, as settings or as values that are computed without them, and `unrack study check` lists the rows that
//! notice.

use crate::compared::{Compared, Verdict};
use crate::computed::{self, Computed};
use crate::declared::Break;
use crate::error::StudyError;
use crate::figure::compare;
use crate::file::{Study, StudyScale};
use crate::grid::{StudyPoint, points};
use crate::run::{Measured, StudyResults, run_points};
use serde::Serialize;
use std::num::NonZeroUsize;
use unrack_grid::GridWatch;
use unrack_record::KeptPoints;

/// Effect of one break on the figures of a study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrokenMechanism {
    pub what: String,
    pub noticed: Vec<Noticed>,
    /// Number of figures that could have noticed.
    pub rows: usize,
}

/// A figure that noticed a break.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Noticed {
    pub row: String,
    pub before: String,
    pub broken: String,
    /// Whether the figure was met, and is missed with the broken mechanism.
    pub is_missed: bool,
}

/// A study with the effects of all its breaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckedStudy {
    pub study: String,
    pub breaks: Vec<BrokenMechanism>,
}

impl CheckedStudy {
    /// Returns whether a figure of the study notices any break.
    pub fn notices(&self) -> bool {
        self.breaks.iter().any(|broken| !broken.noticed.is_empty())
    }
}

/// Runs studies as they are and with each of their mechanisms broken.
///
/// # Errors
/// [`StudyError`] if a point cannot be run, or `kept` cannot be written.
pub fn check(
    studies: &[Study],
    scale: StudyScale,
    kept: &KeptPoints,
    threads: NonZeroUsize,
    watch: &impl GridWatch,
) -> Result<Vec<CheckedStudy>, StudyError> {
    let mut runs: Vec<(&Study, Vec<StudyPoint>)> = Vec::new();
    for study in studies {
        runs.push((study, points(study, scale)));
        runs.extend(study.breaks.iter().map(|broken| (study, broken.points(study, scale))));
    }
    let mut results = run_points(runs, kept, threads, watch)?.into_iter();
    let mut checked = Vec::new();
    for study in studies {
        let unbroken = results.next().expect("one for each run");
        let computed = computed::figures(&study.name, scale);
        let before = compare(study, &unbroken, &computed, scale);
        let mut breaks = Vec::new();
        for broken in &study.breaks {
            let points = results.next().expect("one for each run").points;
            let with = with_points(&unbroken, points);
            let compute = broken.computed.as_ref().and_then(|name| computed::broken(&study.name, name));
            let values: Option<Computed> = compute.map(|compute| compute(scale));
            let has_same_names = |values: &Computed| values.keys().eq(computed.keys());
            debug_assert!(values.as_ref().is_none_or(has_same_names), "{}: {}", study.name, broken.what);
            let after = compare(study, &with, values.as_ref().unwrap_or(&computed), scale);
            breaks.push(broken.effect(study, &before, &after));
        }
        checked.push(CheckedStudy { study: study.name.clone(), breaks });
    }
    Ok(checked)
}

impl Break {
    /// Returns the points that are run with the broken mechanism.
    fn points(&self, study: &Study, scale: StudyScale) -> Vec<StudyPoint> {
        let is_kept = |point: &StudyPoint| {
            let of = |(axis, values): (&String, &Vec<String>)| {
                point.labels.get(axis).is_some_and(|value| values.contains(value))
            };
            self.grid.as_ref() == Some(&point.grid) && self.keep.iter().all(of)
        };
        let mut points: Vec<StudyPoint> = points(study, scale).into_iter().filter(is_kept).collect();
        points.iter_mut().for_each(|point| point.set.extend(self.set.iter().cloned()));
        points
    }

    fn effect(&self, study: &Study, before: &[Compared], after: &[Compared]) -> BrokenMechanism {
        let figures = || study.figures.iter().zip(before.iter().zip(after));
        let could = |(_, (before, _)): &(_, (&Compared, _))| before.could_notice();
        let noticed = figures().filter(could).filter_map(|(figure, (before, after))| {
            let share = figure.tolerance_in(study).share;
            before.notices(after, share).then(|| Noticed {
                row: before.what.clone(),
                before: before.said(),
                broken: after.said(),
                is_missed: before.verdict == Verdict::Met && after.verdict == Verdict::Missed,
            })
        });
        BrokenMechanism {
            what: self.what.clone(),
            noticed: noticed.collect(),
            rows: figures().filter(could).count(),
        }
    }
}

impl Compared {
    /// Returns whether this row can notice a broken mechanism: it was measured, and it can be missed.
    fn could_notice(&self) -> bool {
        matches!(self.verdict, Verdict::Met | Verdict::Missed | Verdict::Explained)
    }

    /// Returns whether the row differs with a broken mechanism: its verdict is another, or one of its values moved by more than
    /// `tolerance`, as a share.
    fn notices(&self, broken: &Compared, tolerance: f64) -> bool {
        // A value that does not exist is near no other.
        let is_near =
            |before: &f64, after: &f64| before == after || (after / before - 1.0).abs() <= tolerance;
        let moved = |(before, after): (&f64, &f64)| !is_near(before, after);
        let (before, after) = (&self.values.ours, &broken.values.ours);
        broken.verdict != self.verdict || before.len() != after.len() || before.iter().zip(after).any(moved)
    }

    /// Returns our figure as a list of rows shows it.
    fn said(&self) -> String {
        match &self.table {
            Some(_) => "a table".into(),
            None => format!("{} {}", self.ours, self.unit).trim().to_string(),
        }
    }
}

/// Returns the results of a study in which some points are replaced.
fn with_points(unbroken: &StudyResults, points: Vec<Measured>) -> StudyResults {
    let mut with = unbroken.clone();
    for point in points {
        let same =
            with.points.iter_mut().find(|other| (&other.grid, &other.labels) == (&point.grid, &point.labels));
        *same.expect("breaks run points of the study") = point;
    }
    with
}
