//! Differences between simulations in the same section.

use unrack_record::Manifest;

use crate::settings::{self, Differing, ScenarioSettings};
use crate::words::listed;
use crate::{RecordedRun, SimulatedRun};

/// Key of the build among the settings.
const BUILD: &str = "build";
/// Maximum number of differences that a title lists. If there are more, the title only counts them.
const NAMED: usize = 3;

pub(crate) struct Unlike {
    differing: Vec<Differing>,
    /// Differences as groups of keys: see [`settings::things`].
    things: Vec<String>,
    /// Names of runs without a scenario, whose differences are therefore unknown.
    unknown: Vec<String>,
    names: Vec<String>,
}

impl Unlike {
    /// Compares the settings of these runs.
    pub(super) fn new(runs: &[(&RecordedRun, &SimulatedRun)]) -> Unlike {
        let names: Vec<String> = runs.iter().map(|(run, _)| run.name.clone()).collect();
        let known: Vec<Option<ScenarioSettings>> =
            runs.iter().map(|(run, _)| of_run(run.manifest.as_ref())).collect();
        let unknown = names.iter().zip(&known).filter(|(_, settings)| settings.is_none());
        let unknown: Vec<String> = unknown.map(|(name, _)| name.clone()).collect();
        let all: Vec<&ScenarioSettings> = known.iter().flatten().collect();
        // If a run were missing, later values would be paired with the wrong names.
        let differing = if unknown.is_empty() { settings::differing(&all) } else { Vec::new() };
        let things = settings::things(&differing);
        Unlike { differing, things, unknown, names }
    }

    /// Returns the title of the section. It is a comparison of fabrics only if no other settings differ.
    pub(super) fn question(&self, fabrics: &[String]) -> String {
        let is_of_fabric = |thing: &String| thing == "fabric" || thing.starts_with("fabric.");
        let carriers = listed(fabrics);
        match &self.things[..] {
            _ if !self.unknown.is_empty() && self.names.len() > 1 => {
                format!("{} simulations", self.names.len())
            }
            things if things.iter().all(is_of_fabric) => {
                let verb = if fabrics.len() == 1 { "does" } else { "do" };
                format!("How {verb} {carriers} carry this traffic?")
            }
            [thing] => format!("What does another {thing} change on {carriers}?"),
            things if things.len() <= NAMED => {
                format!("{} simulations that differ in {}", self.names.len(), listed(things))
            }
            things => format!("{} simulations that differ in {} things", self.names.len(), things.len()),
        }
    }

    /// Returns the warnings that a reader must consider before comparing two results.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.unknown.is_empty() && self.names.len() > 1 {
            let names = listed(&self.unknown);
            warnings.push(format!(
                "the manifest.json of {names} has no scenario, so the differences between these runs are unknown"
            ));
        }
        if self.things.len() > 1 {
            warnings.push(format!(
                "these runs differ in more than one thing ({}): no single one of them explains the results",
                listed(&self.things)
            ));
        }
        warnings
    }

    /// Returns a line for each key, such as `workload.load: 50% in half, 40% in less`.
    pub(super) fn lines(&self) -> Vec<String> {
        let value = |(value, name): (&Option<String>, &String)| {
            format!("{} in {name}", value.as_deref().unwrap_or("absent"))
        };
        let line = |one: &Differing| {
            let values: Vec<String> = one.values.iter().zip(&self.names).map(value).collect();
            format!("{}: {}", one.key, values.join(", "))
        };
        self.differing.iter().map(line).collect()
    }
}

/// Returns the settings of a run, and the build, because another build may give other results.
fn of_run(manifest: Option<&Manifest>) -> Option<ScenarioSettings> {
    let mut settings = settings::settings(manifest)?;
    let build = &manifest?.build;
    let text = match build.sources.is_empty() {
        true => format!("{}, sources not recorded", build.version),
        false => format!("{}, sources {}", build.version, build.sources),
    };
    settings.insert(BUILD.into(), text);
    Some(settings)
}
