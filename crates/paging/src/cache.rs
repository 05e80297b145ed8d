//! Footprints of commands that were run before, in one file of the user's cache folder.
//!
//! A cache is never a reason to fail: what cannot be read is measured again, what cannot be written is
//! not remembered.

use crate::footprint::Footprint;
use crate::program::Program;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const MOST_ENTRIES: usize = 1000;

pub struct Cache {
    path: PathBuf,
}

/// A command, as the text that names it in the file.
pub struct Key(String);

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    footprint: Footprint,
    /// Seconds since 1970.
    at: u64,
}

impl Key {
    /// What a footprint depends on, as far as can be seen: the words, the file, the folder.
    pub fn of(program: &Program) -> Option<Key> {
        let meta = program.path.metadata().ok()?;
        let path = program.path.canonicalize().ok()?;
        let folder = std::env::current_dir().ok()?;
        let modified = (meta.mtime(), meta.mtime_nsec());
        let text = format!("{:?} {path:?} {modified:?} {} {folder:?}", program.command, meta.size());
        Some(Key(text))
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

impl Cache {
    pub fn of_user() -> Option<Cache> {
        let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
        Some(Cache { path: folder.join("unrack/footprints.json") })
    }

    pub fn get(&self, key: &Key) -> Option<Footprint> {
        self.entries().get(&key.0).map(|entry| entry.footprint)
    }

    pub fn put(&self, key: &Key, footprint: Footprint) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut entries = self.entries();
        entries.insert(key.0.clone(), Entry { footprint, at: now.as_secs() });
        while entries.len() > MOST_ENTRIES {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            entries.remove(&oldest.expect("there are more than a few"));
        }
        // See above: not remembered, then.
        let _ = self.path.parent().map(std::fs::create_dir_all);
        let _ = unrack_record::write_json(&self.path, &entries);
    }

    fn entries(&self) -> BTreeMap<String, Entry> {
        unrack_record::read_json(&self.path).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn what_was_put_is_found_and_damage_is_forgotten() {
        let folder = Folder::fast().unwrap();
        let cache = Cache { path: folder.path("deep/footprints.json") };
        let key = |text: &str| Key(text.into());
        let footprint = Footprint { anonymous: 5, shared: 6 };
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), footprint);
        assert_eq!(cache.get(&key("a")), Some(footprint));
        assert_eq!(cache.get(&key("b")), None);
        std::fs::write(&cache.path, "{ \"a\": ").unwrap();
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("b"), footprint);
        assert_eq!(cache.get(&key("b")), Some(footprint));
    }

    #[test]
    fn other_words_are_another_command() {
        let key = |words: &[&str]| {
            let command: Vec<_> = words.iter().map(Into::into).collect();
            Key::of(&Program::resolve(&command).unwrap()).unwrap().0
        };
        assert_eq!(key(&["sh", "-c", "a"]), key(&["sh", "-c", "a"]));
        assert_ne!(key(&["sh", "-c", "a"]), key(&["sh", "-c", "b"]));
        assert_ne!(key(&["sh", "a b"]), key(&["sh", "a", "b"]));
    }
}
