//! Run folders that `--out` names.

use crate::failure::Failure;
use std::path::Path;
use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::{Purpose, RunFolder};

/// Creates the run folder, or takes over an existing one, before the first run, so that an hour of work cannot be lost for lack of a
/// folder. A folder that is in the way is a usage error.
pub(crate) fn create(path: &Path, purpose: &Purpose, replace: bool) -> Result<RunFolder, Failure> {
    RunFolder::create(path, purpose, replace).map_err(|why| Failure::Usage(why.to_string()))
}

/// Returns the purpose of a run of this scenario. It is equal for scenarios with the same values and files, even if they are written
/// differently.
pub(crate) fn of_scenario(
    verb: &str,
    file: &Path,
    set: &[String],
    scenario: &ValidScenario,
) -> Result<Purpose, ScenarioError> {
    let set = set.iter().map(|set| format!(" --set {set}"));
    let object = format!("{}{}", file.display(), set.collect::<String>());
    Ok(Purpose::new(verb, object, scenario.hash_with_files()?))
}
