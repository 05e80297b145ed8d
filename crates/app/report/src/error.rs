//! Errors of reports.

use std::path::PathBuf;

use unrack_record::RecordError;

/// Reason why a report could not be made. The text also states what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(
        "no run folder was named: give at least one, for example `unrack report runs/latest -o report.html`"
    )]
    NoFolder,
    #[error(
        "{}: not a run folder: it holds neither `summary.json` (written by `unrack compare --out` and \
         `unrack sim --out`) nor `map.json` (by `unrack map --out`) nor `sweep.json` (by `unrack sweep --out`)",
        .folder.display()
    )]
    NotARun { folder: PathBuf },
    #[error(
        "{}: not the folder of a finished run that can be compared: `unrack sim`, `sweep`, `compare` and `map` write \
         such with --out",
        .folder.display()
    )]
    NothingToCompare { folder: PathBuf },
    #[error(
        "{} holds a {} and {} a {}: name two runs of the same verb", .a.display(), .kinds[0], .b.display(), .kinds[1]
    )]
    NotComparable { a: PathBuf, b: PathBuf, kinds: [&'static str; 2] },
    #[error(
        "{}: {reason}; it was written by another version of unrack or changed by hand: run the command again",
        .file.display()
    )]
    Unexpected { file: PathBuf, reason: String },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot {action} {}: {why}", .path.display())]
    Folder { action: &'static str, path: PathBuf, why: std::io::Error },
}
