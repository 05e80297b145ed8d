//! A run folder as `unrack diff` reads it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use unrack_record::{Manifest, Sweep, read_json};

use super::sweeps;
use crate::ReportError;
use crate::settings::{self, ScenarioSettings};

/// Kinds of run folders that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A simulation, or the flows of a scenario on a live rack.
    Simulation,
    Comparison,
    Map,
    Sweep,
}

impl Kind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Simulation => "simulation",
            Kind::Comparison => "comparison",
            Kind::Map => "map",
            Kind::Sweep => "sweep",
        }
    }

    /// Returns whether the machine's speed affects the results.
    pub fn is_measured(self) -> bool {
        matches!(self, Kind::Comparison | Kind::Map)
    }
}

/// One of the two folders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferenceSide {
    pub folder: PathBuf,
    pub kind: Kind,
}

pub(super) struct ComparedFolder {
    pub side: DifferenceSide,
    pub manifest: Manifest,
    pub result: Value,
    pub settings: ScenarioSettings,
}

/// Files that have results, and the kind of run folder that each file indicates.
const RESULTS: [(&str, Kind); 3] =
    [("summary.json", Kind::Simulation), ("map.json", Kind::Map), ("sweep.json", Kind::Sweep)];

impl ComparedFolder {
    /// Reads a folder.
    pub(super) fn read(folder: &Path) -> Result<ComparedFolder, ReportError> {
        let is_there = |name: &str| folder.join(name).is_file();
        let found = RESULTS.into_iter().find(|(name, _)| is_there(name) && is_there("manifest.json"));
        let Some((name, kind)) = found else {
            return Err(ReportError::NothingToCompare { folder: folder.into() });
        };
        let result: Value = read_json(folder.join(name))?;
        let is_comparison =
            kind == Kind::Simulation && ["injection", "lines"].iter().any(|key| result.get(key).is_some());
        let kind = if is_comparison { Kind::Comparison } else { kind };
        let manifest: Manifest = read_json(folder.join("manifest.json"))?;
        let settings = settings::settings(Some(&manifest)).unwrap_or_default();
        let mut read = ComparedFolder {
            side: DifferenceSide { folder: folder.into(), kind },
            manifest,
            result,
            settings,
        };
        read.add_settings()?;
        Ok(read)
    }

    /// Adds the settings that are not in the scenario. The axes of a sweep replace the values of its first point.
    fn add_settings(&mut self) -> Result<(), ReportError> {
        if self.side.kind.is_measured() {
            for key in ["command", "local"] {
                let words = self.result.get(key).and_then(words);
                self.settings.extend(words.map(|words| (key.to_string(), words)));
            }
            if let Some(fabrics) = fabrics(&self.result) {
                // The stored scenario has only the first of the fabrics.
                self.settings.insert("fabric.protocol".into(), fabrics);
            }
        }
        if let Some(sweep) = self.sweep()? {
            self.settings.extend(sweeps::axes(&sweep));
        }
        Ok(())
    }

    /// Returns the sweep; `None` if the folder is of another kind.
    pub(super) fn sweep(&self) -> Result<Option<Sweep>, ReportError> {
        if self.side.kind != Kind::Sweep {
            return Ok(None);
        }
        let unexpected = |why: serde_json::Error| ReportError::Unexpected {
            file: self.side.folder.join("sweep.json"),
            reason: why.to_string(),
        };
        serde_json::from_value(self.result.clone()).map(Some).map_err(unexpected)
    }

    /// Returns the build that made the run. If the machine's speed affects the results, it also returns the machine.
    pub(super) fn provenance(&self) -> ScenarioSettings {
        let mut provenance = ScenarioSettings::new();
        add_texts(&mut provenance, "", &self.manifest.build);
        if self.side.kind.is_measured() {
            add_texts(&mut provenance, "host.", &self.manifest.host);
        }
        provenance
    }
}

/// Returns the names of the fabrics of a comparison, by page faults or by loads and stores; `None` for another result.
fn fabrics(result: &Value) -> Option<String> {
    let fabrics = result.get("fabrics").or_else(|| result.get("lines")?.get("fabrics"))?.as_array()?;
    let names: Vec<&str> = fabrics.iter().filter_map(|fabric| fabric["fabric"].as_str()).collect();
    Some(names.join(", "))
}

/// Adds every field of a plain struct that is not null.
fn add_texts(texts: &mut ScenarioSettings, prefix: &str, of: &impl Serialize) {
    let value = serde_json::to_value(of).unwrap_or_default();
    for (key, value) in value.as_object().into_iter().flatten() {
        texts.extend(words(value).map(|words| (format!("{prefix}{key}"), words)));
    }
}

/// Formats a value: a text unchanged, a list of texts as one line, other values as in JSON. `None` for null.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(words).collect::<Vec<_>>().join(" ")),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_fabrics_of_a_comparison_are_named() {
        let of = |names: &[&str]| names.iter().map(|name| json!({ "fabric": name })).collect::<Vec<_>>();
        assert_eq!(fabrics(&json!({ "fabrics": of(&["ideal", "edm"]) })).unwrap(), "ideal, edm");
        assert_eq!(fabrics(&json!({ "lines": { "fabrics": of(&["cxl"]) } })).unwrap(), "cxl");
        assert_eq!(fabrics(&json!({ "locals": [] })), None);
    }
}
