//! Why a study cannot be run.

use unrack_rack::ScenarioError;
use unrack_record::RecordError;

#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file of a study is wrong.
    #[error("studies/{study}.toml: {why}")]
    File { study: String, why: String },
    /// A point of its grid is no scenario that can be run.
    #[error("{point}: this scenario cannot be run\n\n{error}")]
    Scenario { point: String, error: ScenarioError },
    #[error(transparent)]
    Record(#[from] RecordError),
}
