//! Run folders that `--out` names.

use crate::failure::CommandFailure;
use std::path::Path;
use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::{RunFolder, RunPurpose};

/// Creates the run folder, or takes over an existing one. This is done before the run, so that an hour of work cannot be lost because the
/// results cannot be written. A folder of another run is a usage error.
pub(crate) fn create(path: &Path, purpose: &RunPurpose, replace: bool) -> Result<RunFolder, CommandFailure> {
    RunFolder::create(path, purpose, replace).map_err(|why| CommandFailure::Usage(why.to_string()))
}

/// Returns the purpose of a run of this scenario. Scenarios with the same values and files have equal purposes, even if they are written
/// differently.
pub(crate) fn of_scenario(
    verb: &str,
    file: &Path,
    set: &[String],
    scenario: &ValidScenario,
) -> Result<RunPurpose, ScenarioError> {
    let set = set.iter().map(|set| format!(" --set {set}"));
    let object = format!("{}{}", file.display(), set.collect::<String>());
    Ok(RunPurpose::new(verb, object, scenario.hash_with_files()?))
}
