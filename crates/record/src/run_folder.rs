//! The folder of one run: `manifest.json`, `summary.json` and the tables.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{RecordError, atomic_write};

/// What tells a run folder from any other, so that nothing else is ever overwritten.
const MARK: &str = ".unrack-run";

#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the folder, or takes over the folder of an earlier run and removes that run's results.
    ///
    /// A folder that holds anything else is refused.
    pub fn create(path: impl AsRef<Path>) -> Result<RunFolder, RecordError> {
        let folder = RunFolder { path: path.as_ref().into() };
        std::fs::create_dir_all(&folder.path).map_err(RecordError::io("create", &folder.path))?;
        let names = folder.names()?;
        if !names.is_empty() && !folder.path(MARK).exists() {
            return Err(RecordError::NotARunFolder { path: folder.path });
        }
        folder.remove_results(&names)?;
        let mark = format!("A run of unrack {}.\n", env!("CARGO_PKG_VERSION"));
        atomic_write(folder.path(MARK), mark.as_bytes())?;
        Ok(folder)
    }

    /// The folder of a finished run, to read.
    pub fn open(path: impl AsRef<Path>) -> Result<RunFolder, RecordError> {
        let folder = RunFolder { path: path.as_ref().into() };
        match folder.path("manifest.json").is_file() {
            true => Ok(folder),
            false => Err(RecordError::NoRun { path: folder.path }),
        }
    }

    /// Where the file of this name is, or will be.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), RecordError> {
        write_json(self.path(name), value)
    }

    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RecordError> {
        read_json(self.path(name))
    }

    fn names(&self) -> Result<Vec<String>, RecordError> {
        let entries = std::fs::read_dir(&self.path).map_err(RecordError::io("list", &self.path))?;
        let names: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let names = names.map_err(RecordError::io("list", &self.path))?;
        Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Old results would pass for those of a run that stops half-way.
    fn remove_results(&self, names: &[String]) -> Result<(), RecordError> {
        for name in names.iter().filter(|name| is_result(name)) {
            let path = self.path(name);
            std::fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
        }
        Ok(())
    }
}

/// Pretty JSON with a final newline, replaced in one step.
pub fn write_json(path: impl AsRef<Path>, value: &impl Serialize) -> Result<(), RecordError> {
    let path = path.as_ref();
    let mut text = serde_json::to_vec_pretty(value).map_err(RecordError::json(path))?;
    text.push(b'\n');
    atomic_write(path, &text)
}

pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T, RecordError> {
    let path = path.as_ref();
    let text = std::fs::read(path).map_err(RecordError::io("read", path))?;
    serde_json::from_slice(&text).map_err(RecordError::json(path))
}

fn is_result(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "manifest.json",
        "summary.json",
        "map.json",
        "sweep.json",
        "sweep-mean.svg",
        "sweep-p99.svg",
        "scenario.toml",
        "report.html",
    ];
    NAMES.contains(&name) || name.ends_with(".parquet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_folder_of_someone_else_is_refused_and_left_alone() {
        let scratch = Scratch::new("folder-foreign");
        std::fs::write(scratch.join("summary.json"), "mine").unwrap();
        let message = RunFolder::create(&*scratch).unwrap_err().to_string();
        assert!(message.contains("is not empty and is not a run folder of unrack"), "{message}");
        assert_eq!(std::fs::read_to_string(scratch.join("summary.json")).unwrap(), "mine");
    }

    #[test]
    fn a_run_folder_is_taken_over_without_its_results() {
        let scratch = Scratch::new("folder-again");
        let folder = RunFolder::create(scratch.join("deep/run")).unwrap();
        folder.write_json("manifest.json", &1).unwrap();
        folder.write_json("notes.json", &[1, 2]).unwrap();
        for name in ["trace.parquet", "map.json", "scenario.toml"] {
            std::fs::write(folder.path(name), "").unwrap();
        }
        let again = RunFolder::create(scratch.join("deep/run")).unwrap();
        for name in ["manifest.json", "trace.parquet", "map.json", "scenario.toml"] {
            assert!(!again.path(name).exists(), "{name}");
        }
        assert_eq!(again.read_json::<Vec<u8>>("notes.json").unwrap(), [1, 2]);
    }

    #[test]
    fn only_a_finished_run_opens() {
        let scratch = Scratch::new("folder-open");
        let folder = RunFolder::create(&*scratch).unwrap();
        assert!(matches!(RunFolder::open(&*scratch), Err(RecordError::NoRun { .. })));
        folder.write_json("manifest.json", &1).unwrap();
        RunFolder::open(&*scratch).unwrap();
    }

    #[test]
    fn bad_json_is_an_error_with_file_and_line() {
        let scratch = Scratch::new("folder-json");
        let folder = RunFolder::create(&*scratch).unwrap();
        std::fs::write(folder.path("summary.json"), "{\n  \"a\": }").unwrap();
        let message = folder.read_json::<serde_json::Value>("summary.json").unwrap_err().to_string();
        assert!(message.contains("summary.json") && message.contains("line 2 column 8"), "{message}");
        assert!(matches!(folder.read_json::<u8>("absent.json"), Err(RecordError::Io { .. })));
    }
}
