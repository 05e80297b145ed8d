//! Errors of studies.

use std::path::PathBuf;
use unrack_rack::ScenarioError;
use unrack_record::RecordError;

#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file of a study is invalid.
    #[error("studies/{study}.toml: {why}")]
    File { study: String, why: String },
    /// The scenario of a point of a grid cannot be run.
    #[error("{point}: this scenario cannot be run\n\n{error}")]
    Scenario { point: String, error: ScenarioError },
    /// The file with measured costs is invalid.
    #[error("{}: these are no measured costs: {why}", path.display())]
    Costs { path: PathBuf, why: String },
    #[error(transparent)]
    Record(#[from] RecordError),
}
