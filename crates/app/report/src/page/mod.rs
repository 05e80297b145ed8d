//! The report page, as a single file.

mod comparison;
mod lines;
mod manifest;
mod map;
mod section;
mod simulations;
mod sweep;
mod unlike;

use std::path::Path;

use unrack_record::{SlowdownMap, Sweep, atomic_write};

use crate::chart::style;
use crate::markup::Markup;
use crate::{ComparedRun, LinesRun, Picture, RecordedRun, ReportError, RunResult, SimulatedRun};
use section::PageSection;
use unlike::Unlike;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const FABRIC_TERMS: &str = include_str!("terms-fabric.html");
const LINES_TERMS: &str = include_str!("terms-lines.html");
const NETWORK_TERMS: &str = include_str!("terms-network.html");
const PROGRAM_TERMS: &str = include_str!("terms-program.html");

/// Content security policy: the page may not load anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// One or several runs for one page.
#[derive(Debug, Clone)]
pub struct ReportPage {
    runs: Vec<RecordedRun>,
}

/// Content of one section. Simulations are side by side in the same section.
enum SectionContent<'a> {
    Comparison(&'a RecordedRun, &'a ComparedRun),
    Lines(&'a RecordedRun, &'a LinesRun),
    Map(&'a RecordedRun, &'a SlowdownMap),
    Sweep(&'a RecordedRun, &'a Sweep),
    Simulations(Vec<(&'a RecordedRun, &'a SimulatedRun)>),
}

impl ReportPage {
    /// Reads the run folders, in the order in which the page shows them.
    ///
    /// # Errors
    /// [`ReportError`] if `folders` is empty, or if a folder cannot be read.
    pub fn read<P: AsRef<Path>>(folders: &[P]) -> Result<ReportPage, ReportError> {
        if folders.is_empty() {
            return Err(ReportError::NoFolder);
        }
        let runs = folders.iter().map(RecordedRun::read).collect::<Result<_, _>>()?;
        Ok(ReportPage { runs })
    }

    /// Returns a report of these runs.
    pub fn from_runs(runs: Vec<RecordedRun>) -> ReportPage {
        ReportPage { runs }
    }

    /// Returns every figure of the page; their ids are unique.
    pub fn figures(&self) -> Vec<Picture> {
        self.sections().into_iter().flat_map(|section| section.figures).collect()
    }

    /// Returns the warnings that a reader must consider before comparing simulations in the same section.
    pub fn unlike(&self) -> Vec<String> {
        let warnings = |part: &SectionContent| match part {
            SectionContent::Simulations(runs) => Unlike::new(runs).warnings(),
            _ => Vec::new(),
        };
        self.parts().iter().flat_map(warnings).collect()
    }

    /// Writes the page to a file.
    ///
    /// # Errors
    /// [`ReportError`] if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ReportError> {
        Ok(atomic_write(path, self.html().as_bytes())?)
    }

    /// Returns the page, which is well-formed both as HTML and as XML.
    pub fn html(&self) -> String {
        let sections = self.sections();
        let title = match &sections[..] {
            [only] => only.question.clone(),
            several => format!("Unrack: {} results", several.len()),
        };
        let mut m = Markup::new();
        m.raw("<!DOCTYPE html>\n<html lang=\"en\">");
        m.element("head", &[], |m| head(m, &title));
        m.element("body", &[], |m| self.body(m, &title, &sections));
        m.raw("</html>\n");
        m.into_string()
    }

    fn body(&self, m: &mut Markup, title: &str, sections: &[PageSection]) {
        m.element("header", &[], |m| heading(m, title, sections));
        m.element("main", &[], |m| {
            for section in sections {
                section.draw(m, sections.len() > 1);
            }
            self.terms(m);
        });
        let version = env!("CARGO_PKG_VERSION");
        m.text(
            "footer",
            &[],
            &format!("Made by unrack {version}. This page is one file and uses no network."),
        );
        m.element("script", &[], |m| {
            m.raw(SCRIPT);
        });
    }

    fn terms(&self, m: &mut Markup) {
        m.raw("<section id=\"terms\"><h2>What the words mean, and how the numbers were obtained</h2><dl class=\"terms\">");
        let parts = self.parts();
        let shown = |is: fn(&SectionContent) -> bool| parts.iter().any(is);
        let terms = [
            (shown(|part| matches!(part, SectionContent::Lines(..))), LINES_TERMS),
            (
                shown(|part| matches!(part, SectionContent::Comparison(..) | SectionContent::Map(..))),
                PROGRAM_TERMS,
            ),
            (
                shown(|part| {
                    matches!(
                        part,
                        SectionContent::Comparison(..)
                            | SectionContent::Sweep(..)
                            | SectionContent::Simulations(_)
                    )
                }),
                NETWORK_TERMS,
            ),
            (shown(|part| !matches!(part, SectionContent::Map(..))), FABRIC_TERMS),
        ];
        for (_, text) in terms.iter().filter(|(is_needed, _)| *is_needed) {
            m.raw(text);
        }
        m.raw("</dl></section>");
    }

    fn sections(&self) -> Vec<PageSection> {
        let parts = self.parts();
        let several = parts.len() > 1;
        let section = |(index, part): (usize, &SectionContent)| {
            let prefix = if several { format!("{}-", index + 1) } else { String::new() };
            match part {
                SectionContent::Comparison(run, compared) => comparison::section(&prefix, run, compared),
                SectionContent::Lines(run, lines) => lines::section(&prefix, run, lines),
                SectionContent::Map(run, map) => map::section(&prefix, run, map),
                SectionContent::Sweep(run, sweep) => sweep::section(&prefix, run, sweep),
                SectionContent::Simulations(runs) => simulations::section(&prefix, runs),
            }
        };
        parts.iter().enumerate().map(section).collect()
    }

    fn parts(&self) -> Vec<SectionContent<'_>> {
        let mut parts: Vec<SectionContent> = Vec::new();
        for run in &self.runs {
            match &run.result {
                RunResult::Comparison(compared) => parts.push(SectionContent::Comparison(run, compared)),
                RunResult::Lines(lines) => {
                    parts.push(SectionContent::Lines(run, lines));
                    parts.extend(lines.pages.iter().map(|pages| SectionContent::Comparison(run, pages)));
                }
                RunResult::Map(map) => parts.push(SectionContent::Map(run, map)),
                RunResult::Sweep(sweep) => parts.push(SectionContent::Sweep(run, sweep)),
                RunResult::Simulation(simulation) => {
                    let together = parts.iter_mut().find_map(|part| match part {
                        SectionContent::Simulations(runs) => Some(runs),
                        _ => None,
                    });
                    match together {
                        Some(runs) => runs.push((run, simulation)),
                        None => parts.push(SectionContent::Simulations(vec![(run, simulation)])),
                    }
                }
            }
        }
        parts
    }
}

fn head(m: &mut Markup, title: &str) {
    m.raw("<meta charset=\"utf-8\"/>");
    m.leaf("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &POLICY)]);
    m.leaf("meta", &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")]);
    m.leaf("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
    m.text("title", &[], title);
    m.element("style", &[], |m| {
        m.raw(STYLE).raw(&style::in_page());
    });
}

/// Writes the question and the answer of a single result, or links to several results.
fn heading(m: &mut Markup, title: &str, sections: &[PageSection]) {
    m.text("p", &[("class", &"kicker")], "Unrack report").text("h1", &[], title);
    if let [only] = sections {
        m.text("p", &[("class", &"answer")], &only.answer);
        return;
    }
    m.element("nav", &[("aria-label", &"Results")], |m| {
        m.element("ol", &[], |m| {
            for section in sections {
                m.open("li", &[]).text("a", &[("href", &format!("#{}", section.id))], &section.question);
                m.words(" ").text("span", &[], &section.answer).close("li");
            }
        });
    });
}
