//! Errors of studies.

use unrack_rack::ScenarioError;
use unrack_record::RecordError;

#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file of a study is invalid.
    #[error("studies/{study}.toml: {why}")]
    File { study: String, why: String },
    /// A point of a grid is a scenario that cannot be run.
    #[error("{point}: this scenario cannot be run\n\n{error}")]
    Scenario { point: String, error: ScenarioError },
    #[error(transparent)]
    Record(#[from] RecordError),
}
