//! Table of all figures and tables of the papers, with the state of each.

use crate::compared::{Compared, Verdict};
use crate::file::Study;
use crate::page::StudyOutcome;
use crate::stored::{names, stored};
use serde::Deserialize;
use std::fmt::Write;
use std::sync::OnceLock;

/// A paper with all its figures and tables.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub name: String,
    pub rows: Vec<PaperFigure>,
}

/// A figure, a table, or another place with published numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// Place in the paper, such as `figure 8a`.
    pub at: String,
    pub what: String,
    /// Studies that reproduce the figure; empty if none does.
    #[serde(default)]
    pub studies: Vec<String>,
    /// Sources of the rows of these studies that belong to the figure; a text that ends with `*` is the beginning of a source. Empty if
    /// all rows do.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Whether there is nothing to measure.
    #[serde(default)]
    pub drawing: bool,
    #[serde(default)]
    pub note: String,
}

/// State of a figure of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureState {
    Same,
    Explained,
    Open,
    NotBuilt,
    Drawing,
}

impl FigureState {
    const ALL: [FigureState; 5] = [
        FigureState::Same,
        FigureState::Explained,
        FigureState::Open,
        FigureState::NotBuilt,
        FigureState::Drawing,
    ];

    /// Returns the words of the table.
    fn words(self) -> &'static str {
        match self {
            FigureState::Same => "the same",
            FigureState::Explained => "explained by a run",
            FigureState::Open => "open",
            FigureState::NotBuilt => "not built",
            FigureState::Drawing => "nothing to measure",
        }
    }
}

/// Numbers of rows of one figure, by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowCounts {
    met: u32,
    explained: u32,
    open: u32,
    /// Rows that cannot fail, or are context.
    not_counted: u32,
    /// Rows without a verdict of a full run.
    not_run: u32,
}

/// Returns the list of all figures and tables.
///
/// # Panics
/// If the file is invalid, which a test excludes.
pub fn papers() -> &'static [Paper] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        paper: Vec<Paper>,
    }
    static PAPERS: OnceLock<Vec<Paper>> = OnceLock::new();
    let text = include_str!("../../../../studies/figures.toml");
    PAPERS.get_or_init(|| toml::from_str::<List>(text).expect("the list of figures is valid").paper)
}

/// Returns the table of all figures and tables. Verdicts are those of the runs in `done`; for other studies, those that are stored
/// of their last full run.
pub fn overview(studies: &[Study], done: &[StudyOutcome]) -> String {
    let mut rows = String::new();
    let mut states = Vec::new();
    for paper in papers() {
        for figure in &paper.rows {
            let counts = figure.counts(studies, done);
            let state = figure.state(counts);
            states.push(state);
            let links: Vec<String> = figure.studies.iter().map(|study| link(studies, study)).collect();
            let links = if links.is_empty() { "–".into() } else { links.join(", ") };
            let remark = [counts.words(), figure.note.clone()];
            let remark: Vec<String> = remark.into_iter().filter(|part| !part.is_empty()).collect();
            let _ = writeln!(
                rows,
                "| {} | {}: {} | {links} | {} | {} |",
                paper.name,
                figure.at,
                figure.what,
                state.words(),
                remark.join(" ")
            );
        }
    }
    let count = |state: FigureState| states.iter().filter(|of| **of == state).count();
    let sums: Vec<String> =
        FigureState::ALL.iter().map(|state| format!("{} {}", count(*state), state.words())).collect();
    format!(
        "\n## All figures and tables of the papers\n\n\
         {} in all: {}. A figure is *the same* if each of its rows that can fail is met, *explained by a run* if for each missed row a run \
         without its cause removes the difference, and otherwise *open*. Rows that cannot fail (arithmetic, or a constant compared with \
         itself) and context are not counted. Studies that measure a machine have the verdicts of their last full run.\n\n\
         | paper | figure | study | state | rows |\n|---|---|---|---|---|\n{rows}",
        states.len(),
        sums.join(", ")
    )
}

/// Returns a link to the section of a study, on this page or on the page of measured studies.
fn link(studies: &[Study], name: &str) -> String {
    let is_measured = studies.iter().any(|study| study.name == name && study.measured);
    match is_measured {
        true => name.to_string(),
        false => format!("[{name}](#{})", name.replace('/', "")),
    }
}

impl PaperFigure {
    /// Returns whether a row with this source belongs to the figure.
    fn has(&self, source: &str) -> bool {
        let is_it = |of: &String| match of.strip_suffix('*') {
            Some(beginning) => source.starts_with(beginning),
            None => source == of,
        };
        self.sources.is_empty() || self.sources.iter().any(is_it)
    }

    fn counts(&self, studies: &[Study], done: &[StudyOutcome]) -> RowCounts {
        let mut counts = RowCounts::default();
        for study in studies.iter().filter(|study| self.studies.contains(&study.name)) {
            let ran = done.iter().find(|done| done.study.name == study.name).map(|done| done.figures);
            for (n, (figure, name)) in study.figures.iter().zip(names(study)).enumerate() {
                if self.has(&figure.source) {
                    let now =
                        ran.and_then(|figures: &[Compared]| figures.get(n)).map(|figure| figure.verdict);
                    counts.add(now.or_else(|| stored().verdict(&study.name, &name)));
                }
            }
        }
        counts
    }

    fn state(&self, counts: RowCounts) -> FigureState {
        match counts {
            _ if self.drawing => FigureState::Drawing,
            _ if self.studies.is_empty() => FigureState::NotBuilt,
            RowCounts { open: 0, not_run: 0, explained: 1.., .. } => FigureState::Explained,
            RowCounts { open: 0, not_run: 0, met: 1.., .. } => FigureState::Same,
            _ => FigureState::Open,
        }
    }
}

impl RowCounts {
    fn add(&mut self, verdict: Option<Verdict>) {
        let count = match verdict {
            Some(Verdict::Met) => &mut self.met,
            Some(Verdict::Explained) => &mut self.explained,
            Some(Verdict::Missed | Verdict::NotMeasured) => &mut self.open,
            Some(Verdict::CannotFail | Verdict::Stated | Verdict::Alone) => &mut self.not_counted,
            Some(Verdict::LeftOut | Verdict::Withheld) | None => &mut self.not_run,
        };
        *count += 1;
    }

    /// Returns the numbers of rows in words; empty if there are no rows.
    fn words(self) -> String {
        let RowCounts { met, explained, open, not_counted, not_run } = self;
        let counts = [
            (met, "met"),
            (explained, "explained"),
            (open, "open"),
            (not_run, "not run"),
            (not_counted, "not counted"),
        ];
        let said =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let said = said.collect::<Vec<_>>().join(", ");
        if said.is_empty() { said } else { said + "." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Kind;
    use std::collections::BTreeSet;

    /// Returns whether the paper has a row for a figure or table of this number: `figure 8`, or its parts `figure 8a` and on.
    fn is_listed(paper: &Paper, kind: &str, number: u32) -> bool {
        let name = format!("{kind} {number}");
        let is_it = |at: &str| {
            at.strip_prefix(&name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        paper.rows.iter().any(|row| is_it(&row.at))
    }

    #[test]
    fn no_figure_and_no_study_is_absent() {
        // Numbers of figures and tables that the papers have.
        let all = [("EDM", 8, 1), ("DRack", 13, 3), ("R2C2", 19, 0), ("DDC", 9, 5), ("HydraRPC", 7, 2)];
        for (name, figures, tables) in all {
            let paper = papers().iter().find(|paper| paper.name == name).unwrap();
            assert!((1..=figures).all(|number| is_listed(paper, "figure", number)), "{name}");
            assert!((1..=tables).all(|number| is_listed(paper, "table", number)), "{name}");
        }
        let studies = crate::all().unwrap();
        let rows = || papers().iter().flat_map(|paper| &paper.rows);
        let listed: BTreeSet<&String> = rows().flat_map(|row| &row.studies).collect();
        let known: BTreeSet<&String> = studies.iter().map(|study| &study.name).collect();
        assert_eq!(listed, known);
        for row in rows().filter(|row| !row.studies.is_empty()) {
            for name in &row.studies {
                let study = studies.iter().find(|study| study.name == *name).unwrap();
                let is_selected = study.figures.iter().any(|figure| row.has(&figure.source));
                assert!(is_selected, "{} selects nothing of {name}", row.at);
            }
        }
        // Each row of a study that has a published value belongs to a figure.
        for study in &studies {
            for figure in &study.figures {
                let is_placed =
                    rows().any(|row| row.studies.contains(&study.name) && row.has(&figure.source));
                assert!(
                    is_placed || figure.kind == Kind::Context,
                    "{}: {} is in no figure",
                    study.name,
                    figure.what
                );
            }
        }
    }

    #[test]
    fn the_table_has_every_row_of_the_list() {
        let studies = crate::all().unwrap();
        let table = overview(&studies, &[]);
        for paper in papers() {
            for row in &paper.rows {
                assert!(
                    table.contains(&format!("| {} | {}: {} |", paper.name, row.at, row.what)),
                    "{}",
                    row.at
                );
            }
        }
    }

    #[test]
    fn one_open_row_leaves_a_figure_open() {
        let figure = papers()[0].rows.iter().find(|row| !row.studies.is_empty()).unwrap();
        let of = |verdicts: &[Verdict]| {
            let mut counts = RowCounts::default();
            verdicts.iter().for_each(|verdict| counts.add(Some(*verdict)));
            figure.state(counts)
        };
        assert_eq!(of(&[Verdict::Met, Verdict::CannotFail]), FigureState::Same);
        assert_eq!(of(&[Verdict::Met, Verdict::Explained]), FigureState::Explained);
        assert_eq!(of(&[Verdict::Met, Verdict::Missed]), FigureState::Open);
        assert_eq!(of(&[Verdict::Met, Verdict::Withheld]), FigureState::Open, "a row was not run");
        assert_eq!(of(&[Verdict::CannotFail, Verdict::Alone]), FigureState::Open, "nothing counts");
    }
}
