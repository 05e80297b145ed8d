//! Summary file `PID-N.json` of a recorded process, which is stored next to its recording `PID-N.lines`.
//!
//! `N` distinguishes the successive programs of one process, and different processes that had the same process ID.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use unrack_lines::heat::HeatTables;
use unrack_lines::summary::Summary;

/// Maximum value of `N` in the name of a summary file.
const MOST: u32 = 1 << 20;

/// Path of a summary file.
pub(crate) struct SummaryFile(PathBuf);

impl SummaryFile {
    /// Creates the next summary file of this process in a directory.
    ///
    /// # Errors
    /// If the directory cannot be written.
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

    /// Returns the path of the recording that belongs to the summary file.
    pub(crate) fn recording(&self) -> PathBuf {
        self.0.with_extension("lines")
    }

    /// Replaces the content of the summary file and of the heat file next to it. Each content is written to a temporary
    /// file, which is then renamed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write(&self, summary: &Summary, heat: &HeatTables) -> io::Result<()> {
        replace(&self.0.with_extension("heat"), &serde_json::to_vec(heat)?)?;
        replace(&self.0, &serde_json::to_vec(summary)?)
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    std::fs::write(&aside, content)?;
    std::fs::rename(aside, path)
}
