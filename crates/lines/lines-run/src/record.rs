//! Records of an instrumented run. Each program of each process leaves a summary and a recording.

use crate::RunError;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use unrack_lines::heat::HeatTables;
use unrack_lines::recording::Reader;
use unrack_lines::summary::Summary;

/// Maximum size of a summary file, in bytes.
const LARGEST: u64 = 256 << 20;

/// Record that one program leaves in one process. A process that calls `execve` has several such records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Counts over the whole run of the program.
    pub summary: Summary,
    /// Path of the recording of windows; `None` if no window was recorded.
    pub recording: Option<PathBuf>,
    /// Path of the heat file, which contains the number of memory requests to each page.
    pub heat: PathBuf,
}

impl ProcessRecord {
    /// Opens the recording of windows. Returns `None` if no window was recorded.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn open(&self) -> Result<Option<Reader<BufReader<File>>>, RunError> {
        let Some(path) = &self.recording else { return Ok(None) };
        let file = File::open(path).map_err(RunError::failed("open a recording"))?;
        let damaged = |why: unrack_lines::recording::RecordingError| RunError::Record {
            path: path.clone(),
            why: why.to_string(),
        };
        Reader::new(BufReader::new(file)).map(Some).map_err(damaged)
    }

    /// Reads the heat file: for each page, the number of requests for its lines that reached memory during the whole
    /// run.
    ///
    /// # Errors
    /// If the heat file cannot be read.
    pub fn heat(&self) -> Result<HeatTables, RunError> {
        let text = content(&self.heat)?;
        serde_json::from_slice(&text).map_err(|why| damaged(&self.heat, &why))
    }
}

/// Reads all records in a directory, in ascending order of process IDs.
///
/// # Errors
/// If the directory or a record cannot be read.
pub(crate) fn read(folder: &Path) -> Result<Vec<ProcessRecord>, RunError> {
    let entries = std::fs::read_dir(folder).map_err(RunError::failed("read the folder of the records"))?;
    let mut paths: Vec<(u32, u32, PathBuf)> =
        entries.flatten().filter_map(|entry| numbered(entry.path())).collect();
    paths.sort();
    // A process that was killed while it created its record leaves an empty summary, which is skipped.
    let records = paths.into_iter().map(|(_, _, path)| record(&path)).filter_map(Result::transpose);
    records.collect()
}

/// Returns the process ID and the number `N` from the file name of a summary, `PID-N.json`, together with the path.
fn numbered(path: PathBuf) -> Option<(u32, u32, PathBuf)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let (pid, count) = name.split_once('-')?;
    Some((pid.parse().ok()?, count.parse().ok()?, path))
}

fn record(path: &Path) -> Result<Option<ProcessRecord>, RunError> {
    let text = content(path)?;
    if text.is_empty() {
        return Ok(None);
    }
    let summary = serde_json::from_slice(&text).map_err(|why| damaged(path, &why))?;
    let recording = Some(path.with_extension("lines")).filter(|path| path.exists());
    Ok(Some(ProcessRecord { summary, recording, heat: path.with_extension("heat") }))
}

fn content(path: &Path) -> Result<Vec<u8>, RunError> {
    let mut text = Vec::new();
    let file = File::open(path).map_err(RunError::failed("open a record"))?;
    file.take(LARGEST).read_to_end(&mut text).map_err(RunError::failed("read a record"))?;
    Ok(text)
}

fn damaged(path: &Path, why: &serde_json::Error) -> RunError {
    RunError::Record { path: path.into(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn damaged_records_are_named_and_other_files_left() {
        let folder = TestFolder::new("records");
        for (name, content) in [("5-0.json", ""), ("5-0.json.part", "{"), ("x.json", "{"), ("5-0.lines", "")]
        {
            std::fs::write(folder.join(name), content).unwrap();
        }
        assert_eq!(read(&folder).unwrap(), []);
        std::fs::write(folder.join("17-2.json"), "{\"pid\": 17}").unwrap();
        let message = read(&folder).unwrap_err().to_string();
        assert!(message.contains("17-2.json") && message.contains("missing field"), "{message}");
    }
}
