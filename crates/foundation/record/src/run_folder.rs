//! Folder of one run: `manifest.json`, `summary.json` and the tables.
//!
//! A folder is overwritten only by a run with the same [`RunPurpose`], or if the user permits it explicitly.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{AtomicFile, Manifest, RecordError, atomic_write};

/// Name of the file that marks a run folder, so that other folders are never overwritten. The file contains the [`RunPurpose`].
const MARK: &str = ".unrack-run";

/// The question that a run answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPurpose {
    /// Verb of the command, for example `sim`.
    pub verb: String,
    /// Object of the verb in readable form: the scenario's file, or the program's command.
    pub object: String,
    /// Hash or text that is equal for runs that may replace each other.
    pub key: String,
}

impl RunPurpose {
    /// Creates a purpose from its verb, object and key.
    pub fn new(verb: &str, object: impl Into<String>, key: impl Into<String>) -> RunPurpose {
        RunPurpose { verb: verb.into(), object: object.into(), key: key.into() }
    }

    fn may_replace(&self, earlier: &RunPurpose) -> bool {
        (&self.verb, &self.key) == (&earlier.verb, &earlier.key)
    }
}

#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Creates the folder, or takes over the folder of an earlier run and removes that run's results.
    ///
    /// A folder that contains a run with another purpose is refused, unless `replace` is set. A folder with other content is always
    /// refused. A run that failed before it had results does not count.
    ///
    /// # Errors
    /// If the folder is refused or cannot be written.
    pub fn create(
        path: impl AsRef<Path>,
        purpose: &RunPurpose,
        replace: bool,
    ) -> Result<RunFolder, RecordError> {
        let folder = RunFolder { path: path.as_ref().into() };
        std::fs::create_dir_all(&folder.path).map_err(RecordError::io("create", &folder.path))?;
        let names = folder.names()?;
        folder.check_owner(&names, purpose, replace)?;
        folder.remove_results(&names)?;
        folder.write_json(MARK, purpose)?;
        Ok(folder)
    }

    fn check_owner(&self, names: &[String], purpose: &RunPurpose, replace: bool) -> Result<(), RecordError> {
        // Studies of earlier versions left no mark, and the marks of those versions contained no purpose.
        let is_run = || self.read_json::<Manifest>("manifest.json").is_ok();
        if !names.is_empty() && !names.iter().any(|name| name == MARK) && !is_run() {
            return Err(RecordError::NotARunFolder { path: self.path.clone() });
        }
        let earlier: Option<RunPurpose> = self.read_json(MARK).ok();
        match earlier {
            _ if replace || !names.iter().any(|name| is_result(name) || KEPT.contains(&name.as_str())) => {
                Ok(())
            }
            Some(earlier) if purpose.may_replace(&earlier) => Ok(()),
            earlier => Err(RecordError::AnotherRun { path: self.path.clone(), earlier }),
        }
    }

    /// Calls `write` to write results. If `write` fails, all results are removed, and only the mark of the folder stays.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn complete(
        &self,
        write: impl FnOnce(&RunFolder) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        let done = write(self);
        if done.is_err() {
            // The next run in this folder removes the files that cannot be removed now.
            let _ = self.names().and_then(|names| self.remove_results(&names));
        }
        done
    }

    /// Opens the folder of a finished run, for reading.
    ///
    /// # Errors
    /// If the folder contains no `manifest.json`.
    pub fn open(path: impl AsRef<Path>) -> Result<RunFolder, RecordError> {
        let folder = RunFolder { path: path.as_ref().into() };
        match folder.path("manifest.json").is_file() {
            true => Ok(folder),
            false => Err(RecordError::NoRun { path: folder.path }),
        }
    }

    /// Returns the path of the file with this name, which need not exist.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a value to a file of the folder, like [`write_json`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), RecordError> {
        write_json(self.path(name), value)
    }

    /// Reads a value from a file of the folder, like [`read_json`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RecordError> {
        read_json(self.path(name))
    }

    fn names(&self) -> Result<Vec<String>, RecordError> {
        let entries = std::fs::read_dir(&self.path).map_err(RecordError::io("list", &self.path))?;
        let names: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let names = names.map_err(RecordError::io("list", &self.path))?;
        Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    /// Removes the results of an earlier run. Otherwise they could be taken for results of a new run that stops half-way.
    fn remove_results(&self, names: &[String]) -> Result<(), RecordError> {
        for name in names.iter().filter(|name| is_result(name)) {
            let path = self.path(name);
            std::fs::remove_file(&path).map_err(RecordError::io("remove", &path))?;
        }
        Ok(())
    }
}

/// Size limit of a JSON file that is read. It is more than any run writes, even with its scenario in the manifest.
const MOST_JSON_BYTES: u64 = 256 << 20;

/// Writes formatted JSON with a final newline, and replaces the file atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_json(path: impl AsRef<Path>, value: &impl Serialize) -> Result<(), RecordError> {
    atomic_write(path.as_ref(), &json(path.as_ref(), value)?)
}

/// Writes JSON like [`write_json`], to a file that only this user can read.
///
/// # Errors
/// If the file cannot be written.
pub fn write_private_json(path: impl AsRef<Path>, value: &impl Serialize) -> Result<(), RecordError> {
    let path = path.as_ref();
    let mut file = AtomicFile::create_private(path)?;
    file.write_all(&json(path, value)?).map_err(RecordError::io("write", path))?;
    file.commit()
}

fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(RecordError::json(path))?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a JSON file.
///
/// # Errors
/// If the file cannot be read, is too long, or does not contain the expected JSON.
pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T, RecordError> {
    let path = path.as_ref();
    let text = unrack_input::read(path, MOST_JSON_BYTES)?;
    serde_json::from_slice(&text).map_err(RecordError::json(path))
}

/// Files and folders with finished parts of an interrupted run, with which a later run continues.
const KEPT: [&str; 2] = ["measured.json", "points"];

fn is_result(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "manifest.json",
        "summary.json",
        "map.json",
        "sweep.json",
        "sweep-mean.svg",
        "sweep-mean.vl.json",
        "sweep-p99.svg",
        "sweep-p99.vl.json",
        "explain.json",
        "explain.svg",
        "explain.vl.json",
        "scenario.toml",
        "report.html",
        "results.json",
        "studies.md",
    ];
    NAMES.contains(&name) || name.ends_with(".parquet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Build, StartedCommand};
    use unrack_testing::TestFolder;

    fn edm() -> RunPurpose {
        RunPurpose::new("sim", "edm.toml", "5eed")
    }

    #[test]
    fn a_folder_of_someone_else_is_refused_and_left_alone() {
        let scratch = TestFolder::new("folder-foreign");
        std::fs::write(scratch.join("summary.json"), "mine").unwrap();
        for replace in [false, true] {
            let message = RunFolder::create(&*scratch, &edm(), replace).unwrap_err().to_string();
            assert!(message.contains("is not empty and is not a run folder of unrack"), "{message}");
        }
        assert_eq!(std::fs::read_to_string(scratch.join("summary.json")).unwrap(), "mine");
    }

    #[test]
    fn a_run_that_cannot_write_all_its_results_leaves_none() {
        let scratch = TestFolder::new("folder-half");
        let folder = RunFolder::create(&*scratch, &edm(), false).unwrap();
        let write = |fails: bool| {
            folder.complete(|folder| {
                folder.write_json("summary.json", &1)?;
                match fails {
                    true => folder.write_json("absent/manifest.json", &1),
                    false => folder.write_json("manifest.json", &1),
                }
            })
        };
        write(false).unwrap();
        assert!(write(true).unwrap_err().to_string().contains("absent/manifest.json"));
        assert_eq!(folder.names().unwrap(), [MARK]);
    }

    #[test]
    fn a_run_folder_is_taken_over_without_its_results() {
        let scratch = TestFolder::new("folder-again");
        let folder = RunFolder::create(scratch.join("deep/run"), &edm(), false).unwrap();
        folder.write_json("manifest.json", &1).unwrap();
        folder.write_json("notes.json", &[1, 2]).unwrap();
        for name in ["trace.parquet", "map.json", "scenario.toml"] {
            std::fs::write(folder.path(name), "").unwrap();
        }
        let again = RunFolder::create(scratch.join("deep/run"), &edm(), false).unwrap();
        for name in ["manifest.json", "trace.parquet", "map.json", "scenario.toml"] {
            assert!(!again.path(name).exists(), "{name}");
        }
        assert_eq!(again.read_json::<Vec<u8>>("notes.json").unwrap(), [1, 2]);
    }

    #[test]
    fn a_run_with_another_purpose_is_refused_unless_it_is_to_be_replaced() {
        let scratch = TestFolder::new("folder-another");
        let folder = RunFolder::create(&*scratch, &edm(), false).unwrap();
        let others = [RunPurpose::new("sim", "cxl.toml", "c0de"), RunPurpose::new("compare", "sort", "5eed")];
        // The run had no results yet, so no results can be lost.
        std::fs::write(folder.path("native.out"), "what a program printed before it failed").unwrap();
        RunFolder::create(&*scratch, &others[0], false).unwrap();
        RunFolder::create(&*scratch, &edm(), false).unwrap();
        folder.write_json("measured.json", &1).unwrap();
        for other in &others {
            let message = RunFolder::create(&*scratch, other, false).unwrap_err().to_string();
            assert!(
                message.contains("`unrack sim` of edm.toml") && message.contains("--replace"),
                "{message}"
            );
            assert!(folder.path("measured.json").exists());
        }
        // The same question, for a scenario file that was moved.
        RunFolder::create(&*scratch, &RunPurpose::new("sim", "moved/edm.toml", "5eed"), false).unwrap();
        RunFolder::create(&*scratch, &others[1], true).unwrap();
        RunFolder::create(&*scratch, &others[1], false).unwrap();
    }

    #[test]
    fn a_run_of_an_earlier_version_is_refused_unless_it_is_to_be_replaced() {
        let scratch = TestFolder::new("folder-earlier");
        std::fs::write(scratch.join(MARK), "A run of unrack 0.1.0.\n").unwrap();
        RunFolder::create(&*scratch, &edm(), false).unwrap();
        let manifest = StartedCommand::now(Build::for_tests()).manifest(1, None, 0.into());
        write_json(scratch.join("manifest.json"), &manifest).unwrap();
        std::fs::write(scratch.join(MARK), "A run of unrack 0.1.0.\n").unwrap();
        let message = RunFolder::create(&*scratch, &edm(), false).unwrap_err().to_string();
        assert!(message.contains("earlier version") && message.contains("--replace"), "{message}");
        std::fs::remove_file(scratch.join(MARK)).unwrap();
        assert!(RunFolder::create(&*scratch, &edm(), false).is_err());
        RunFolder::create(&*scratch, &edm(), true).unwrap();
        assert!(!scratch.join("manifest.json").exists());
    }

    #[test]
    fn a_manifest_of_another_program_makes_no_run_folder() {
        let scratch = TestFolder::new("folder-web");
        std::fs::write(scratch.join("manifest.json"), "{\"name\": \"a web page\"}").unwrap();
        assert!(matches!(RunFolder::create(&*scratch, &edm(), true), Err(RecordError::NotARunFolder { .. })));
        assert!(scratch.join("manifest.json").exists());
    }

    #[test]
    fn only_a_finished_run_opens() {
        let scratch = TestFolder::new("folder-open");
        let folder = RunFolder::create(&*scratch, &edm(), false).unwrap();
        assert!(matches!(RunFolder::open(&*scratch), Err(RecordError::NoRun { .. })));
        folder.write_json("manifest.json", &1).unwrap();
        RunFolder::open(&*scratch).unwrap();
    }

    #[test]
    fn bad_json_is_an_error_with_file_and_line() {
        let scratch = TestFolder::new("folder-json");
        let folder = RunFolder::create(&*scratch, &edm(), false).unwrap();
        std::fs::write(folder.path("summary.json"), "{\n  \"a\": }").unwrap();
        let message = folder.read_json::<serde_json::Value>("summary.json").unwrap_err().to_string();
        assert!(message.contains("summary.json") && message.contains("line 2 column 8"), "{message}");
        assert!(matches!(folder.read_json::<u8>("absent.json"), Err(RecordError::Input(_))));
    }
}
