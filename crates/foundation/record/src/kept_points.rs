//! Finished points of grids of scenarios, kept in files, so that no point is simulated twice.
//!
//! Sweeps and studies use the same rule to decide whether two points are equal: same scenario (including the files that it names), same
//! additional options, same sources of the program. If another build simulated a point, the point is simulated again and its file is
//! replaced. Therefore a folder does not grow with the number of builds, and never returns the results of another build.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use unrack_basis::fnv_1a;

use crate::{Build, RecordError, read_json, write_json};

/// Folder of finished points, used by one build.
#[derive(Debug)]
pub struct KeptPoints {
    folder: PathBuf,
    sources: String,
}

/// Everything on which the result of a point depends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    /// Hash of the complete scenario and of the contents of the files that it names.
    scenario: String,
    /// Options in addition to the scenario, as the caller formats them.
    asked: String,
    /// Hash of the build's sources: [`Build::sources`].
    sources: String,
}

#[derive(Serialize, Deserialize)]
struct KeptPoint<T> {
    key: Key,
    result: T,
}

impl KeptPoints {
    /// Opens a folder, which is created if absent.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(folder: impl AsRef<Path>, build: &Build) -> Result<KeptPoints, RecordError> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(RecordError::io("create", folder))?;
        Ok(KeptPoints { folder: folder.into(), sources: build.sources.clone() })
    }

    /// Returns the result of a point, if this build has simulated it. A file that cannot be read counts as absent.
    pub fn read<T: DeserializeOwned>(&self, scenario: &str, asked: &str) -> Option<T> {
        let key = self.key(scenario, asked);
        let kept: KeptPoint<T> = read_json(self.path(&key)).ok()?;
        (kept.key == key).then_some(kept.result)
    }

    /// Stores the result of a point, and replaces any older one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, scenario: &str, asked: &str, result: &impl Serialize) -> Result<(), RecordError> {
        let key = self.key(scenario, asked);
        write_json(self.path(&key), &KeptPoint { key, result })
    }

    fn key(&self, scenario: &str, asked: &str) -> Key {
        Key { scenario: scenario.into(), asked: asked.into(), sources: self.sources.clone() }
    }

    /// Returns the file of a point, which is the same for all builds.
    fn path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}-{:016x}.json", key.scenario, fnv_1a(key.asked.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_testing::TestFolder;

    fn build(sources: &str) -> Build {
        Build { sources: sources.into(), ..Build::for_tests() }
    }

    #[test]
    fn another_build_finds_nothing_and_leaves_one_file() {
        let folder = TestFolder::new("kept-builds");
        let [old, new] = ["old", "new"].map(|sources| KeptPoints::open(&*folder, &build(sources)).unwrap());
        old.write("s", "", &1.5).unwrap();
        assert_eq!(old.read("s", ""), Some(1.5));
        assert_eq!(new.read::<f64>("s", ""), None);
        new.write("s", "", &2.5).unwrap();
        assert_eq!((old.read::<f64>("s", ""), new.read("s", "")), (None, Some(2.5)));
        assert_eq!(std::fs::read_dir(&*folder).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_cut_short_counts_as_none() {
        let folder = TestFolder::new("kept-broken");
        let kept = KeptPoints::open(folder.join("deep"), &build("a")).unwrap();
        kept.write("s", "", &[1, 2, 3]).unwrap();
        let file = std::fs::read_dir(folder.join("deep")).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read(&file).unwrap();
        for length in 0..text.len() - 2 {
            std::fs::write(&file, &text[..length]).unwrap();
            assert_eq!(kept.read::<Vec<u8>>("s", ""), None, "{length} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn only_the_same_key_reads_what_was_written(
            points in prop::collection::btree_map(("[0-9a-f]{4}", "[a-z=]{0,6}", "[ab]"), prop::num::f64::NORMAL, 1..12)
        ) {
            let folder = TestFolder::new("kept-keys");
            // Two builds write one after the other; the points of the later build must remain.
            let open = |sources: &str| KeptPoints::open(&*folder, &build(sources)).unwrap();
            for sources in ["a", "b"] {
                for ((scenario, asked, of), value) in &points {
                    if of == sources {
                        open(sources).write(scenario, asked, value).unwrap();
                    }
                }
            }
            for ((scenario, asked, sources), value) in &points {
                let replaced = sources == "a" && points.contains_key(&(scenario.clone(), asked.clone(), "b".into()));
                let found: Option<f64> = open(sources).read(scenario, asked);
                prop_assert_eq!(found.map(f64::to_bits), (!replaced).then_some(value.to_bits()));
            }
        }
    }
}
