//! Why a study cannot be run.

use std::path::PathBuf;
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
    #[error("cannot {action} {}: {why}", path.display())]
    Io { action: &'static str, path: PathBuf, why: std::io::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
}
