//! Errors of writing and reading records.

use std::path::{Path, PathBuf};

use crate::RunPurpose;
use unrack_input::{InputError, WIDTH, clipped_to};

/// Reason why a record could not be written or read. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot {action} {}: {why}", .path.display())]
    Io { action: &'static str, path: PathBuf, why: std::io::Error },
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{} is not the JSON expected here: {}", .path.display(), clipped_to(&.why.to_string(), 2 * WIDTH))]
    Json { path: PathBuf, why: serde_json::Error },
    #[error(
        "{} is not empty and is not a run folder of unrack: name another folder, or empty this one",
        .path.display()
    )]
    NotARunFolder { path: PathBuf },
    #[error(
        "{} holds {}: name another folder, or give --replace to replace it",
        .path.display(), run_in_words(.earlier)
    )]
    AnotherRun { path: PathBuf, earlier: Option<RunPurpose> },
    #[error("{} holds no run: unrack writes one with --out", .path.display())]
    NoRun { path: PathBuf },
    #[error("{} is not a readable Parquet file (damaged or cut short?): {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} is a {found} table, where a {expected} table is needed", .path.display())]
    WrongTable { path: PathBuf, expected: &'static str, found: String },
    #[error(
        "{} was written by an earlier version, whose column `ideal_ps` held the unloaded time: run the simulation again",
        .path.display()
    )]
    EarlierMessages { path: PathBuf },
    #[error("{} has no column `{column}` ({expected})", .path.display())]
    MissingColumn { path: PathBuf, column: &'static str, expected: &'static str },
    #[error("{}: column `{column}` holds {found}, where {expected} is needed", .path.display())]
    MistypedColumn { path: PathBuf, column: &'static str, expected: &'static str, found: String },
    #[error("{}, row {row}: {why}", .path.display())]
    BadRow { path: PathBuf, row: usize, why: String },
    #[error("{}: the metadata is not that of a {table} table: {why}", .path.display())]
    BadMetadata { path: PathBuf, table: &'static str, why: String },
}

fn run_in_words(run: &Option<RunPurpose>) -> String {
    match run {
        Some(RunPurpose { verb, object, .. }) => format!("a run of `unrack {verb}` of {object}"),
        None => "a run of an earlier version of unrack".into(),
    }
}

impl RecordError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RecordError {
        move |why| RecordError::Io { action, path: path.into(), why }
    }

    pub(crate) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> RecordError {
        move |why| RecordError::Json { path: path.into(), why }
    }
}
