//! `unrack diff`: differences between two run folders, and whether they exceed noise.

mod folder;
mod noise;
mod results;
mod statement;
mod sweeps;
mod text;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use crate::ReportError;
use crate::settings::ScenarioSettings;
use folder::ComparedFolder;
pub use folder::{DifferenceSide, Kind};
pub use noise::Noise;
pub use results::DifferentResult;

/// Comparison of two run folders.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub a: DifferenceSide,
    pub b: DifferenceSide,
    /// Settings that differ. They are keys of the scenario; for runs of a program they also include its command and local share.
    pub scenario: Vec<DifferentText>,
    /// Differences between the builds that made the runs. If the machine's speed affects the results, the machines are compared, too.
    pub build: Vec<DifferentText>,
    /// Numbers that differ.
    pub results: Vec<DifferentResult>,
    /// Number of results that are equal.
    pub unchanged: usize,
    /// Sentence that states how noise was judged, or how it can be judged.
    pub noise: String,
}

/// A text that differs between the folders; `None` (null) where it is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferentText {
    pub key: String,
    pub a: Option<String>,
    pub b: Option<String>,
}

impl Difference {
    /// Compares two finished runs of the same kind.
    ///
    /// # Errors
    /// [`ReportError`] if a folder cannot be read, or the runs are of different kinds.
    pub fn between(a: &Path, b: &Path) -> Result<Difference, ReportError> {
        let (a, b) = (ComparedFolder::read(a)?, ComparedFolder::read(b)?);
        if a.side.kind != b.side.kind {
            let kinds = [a.side.kind.name(), b.side.kind.name()];
            return Err(ReportError::NotComparable { a: a.side.folder, b: b.side.folder, kinds });
        }
        let scenario = different_texts(&a.settings, &b.settings);
        let build = different_texts(&a.provenance(), &b.provenance());
        let numbers = match (a.sweep()?, b.sweep()?) {
            (Some(a), Some(b)) => sweeps::compare(&a, &b),
            _ => results::compare(&a.result, &b.result),
        };
        let all = numbers.len();
        let results: Vec<DifferentResult> = numbers.into_iter().filter(|one| one.a != one.b).collect();
        let unchanged = all - results.len();
        let is_same_build = a.manifest.build.sources == b.manifest.build.sources;
        let noise = statement::statement(a.side.kind, &scenario, is_same_build, &results).into();
        Ok(Difference { a: a.side, b: b.side, scenario, build, results, unchanged, noise })
    }

    /// Returns the comparison as text for a terminal.
    pub fn text(&self) -> String {
        text::text(self)
    }
}

fn different_texts(a: &ScenarioSettings, b: &ScenarioSettings) -> Vec<DifferentText> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let one =
        |key: &String| DifferentText { key: key.clone(), a: a.get(key).cloned(), b: b.get(key).cloned() };
    keys.into_iter().map(one).filter(|one| one.a != one.b).collect()
}
