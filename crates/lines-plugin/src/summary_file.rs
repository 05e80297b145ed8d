//! File of a summary: `PID-N.json`, beside the recording `PID-N.lines`.
//!
//! `N` counts the programs that one process has been, and the processes of one number.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use unrack_lines::summary::Summary;

/// Programs that a process becomes one after another.
const MOST: u32 = 1 << 20;

/// File of a summary.
pub(crate) struct SummaryFile(PathBuf);

impl SummaryFile {
    /// Creates the next file of this process in a folder.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn create(folder: &Path) -> Result<SummaryFile, String> {
        let pid = std::process::id();
        for number in 0..MOST {
            let path = folder.join(format!("{pid}-{number}.json"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(SummaryFile(path)),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(format!("{}: {why}", path.display())),
            }
        }
        Err(format!("{}: too many records of process {pid}", folder.display()))
    }

    /// Returns the path of the recording.
    pub(crate) fn recording(&self) -> PathBuf {
        self.0.with_extension("lines")
    }

    /// Replaces the content: written aside, then renamed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, summary: &Summary) -> io::Result<()> {
        let aside = self.0.with_extension("json.part");
        std::fs::write(&aside, serde_json::to_vec(summary)?)?;
        std::fs::rename(aside, &self.0)
    }
}
