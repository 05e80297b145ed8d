//! Run folders, as named by `--out`.

use crate::failure::Failure;
use std::path::Path;
use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::{Purpose, RunFolder};

/// Creates or takes over the folder, before an hour of work is lost. A folder in the way is bad usage.
pub(crate) fn create(path: &Path, purpose: &Purpose, replace: bool) -> Result<RunFolder, Failure> {
    RunFolder::create(path, purpose, replace).map_err(|why| Failure::Usage(why.to_string()))
}

/// Returns the purpose of a run of this scenario: equal for scenarios with the same values and files, wherever they
/// are written.
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
