//! Run folders of answers.

use crate::error::{Error, failed};
use std::path::{Path, PathBuf};
use unrack_record::{RunFolder, RunPurpose};
use unrack_report::{RecordedRun, ReportPage};

/// Creates the run folder, or takes over an existing one. This is done before the first run, so that an hour of work cannot be lost because
/// the results cannot be written. A folder of another run is a usage error.
pub(crate) fn create(path: &Path, purpose: &RunPurpose, replace: bool) -> Result<RunFolder, Error> {
    RunFolder::create(path, purpose, replace).map_err(|why| Error::Usage(why.to_string()))
}

/// Writes the report about a folder whose other files are complete, and returns the path of the report.
pub(crate) fn report(out: &Path, folder: &RunFolder) -> Result<PathBuf, Error> {
    let report = folder.path("report.html");
    let run = RecordedRun::read(out).map_err(failed)?;
    ReportPage::from_runs(vec![run]).write(&report).map_err(failed)?;
    Ok(report)
}
