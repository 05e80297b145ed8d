//! Cache of the footprints of earlier commands, in one file of the user's cache folder.
//!
//! Because command lines can contain secrets, only the user can read the file, and the file names each command by its SHA-256. From the
//! digest a command can be found only by guessing it as a whole. (The workspace's other hash, rapidhash, is made for speed and can be
//! inverted.)
//!
//! The cache never causes a failure: if an entry cannot be read, the footprint is measured again; if an entry cannot be written, the
//! footprint is not remembered.

use crate::footprint::Weighing;
use crate::program::Program;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use unrack_record::Build;

const MOST_ENTRIES: usize = 1000;
/// Maximum bytes that are read of the files that a command names. Files beyond this limit are identified by size and modification time.
const TOLD_BY_BYTES: u64 = 16 << 20;

/// Footprint cache of one user.
pub(crate) struct Cache {
    path: PathBuf,
}

/// Text that identifies a command.
pub(crate) struct Key(String);

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    weighing: Weighing,
    /// Time at which the entry was written, in seconds since 1970.
    at: u64,
}

impl Key {
    /// Makes the key of a command from everything that its footprint visibly depends on: its words, its executable, the current folder, and
    /// the files that its words name, for example a script and its input.
    pub(crate) fn for_program(program: &Program) -> Option<Key> {
        let meta = program.path.metadata().ok()?;
        let path = program.path.canonicalize().ok()?;
        let folder = std::env::current_dir().ok()?;
        let modified = (meta.mtime(), meta.mtime_nsec());
        let mut left = TOLD_BY_BYTES;
        let states = program.command.iter().skip(1).map(|word| file_state(Path::new(word), &mut left));
        let files: Vec<String> = states.flatten().collect();
        let text =
            format!("{:?} {path:?} {modified:?} {} {folder:?} {files:?}", program.command, meta.size());
        Some(Key(text))
    }

    /// Makes the key specific to a build of Unrack, because another build may measure differently.
    pub(crate) fn weighed_by(self, build: &Build) -> Key {
        Key(format!("{} {}", self.0, build.sources))
    }

    /// Returns the text of the key.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Returns the name of the key in the cache file.
    fn digest(&self) -> String {
        hex(self.0.as_bytes())
    }
}

/// Returns a text that distinguishes states of a file; `None` if no file has this name. The text is a digest of the file's bytes if `left`
/// has room for them, because a program may rewrite the same output in each run; otherwise it is size and modification time.
fn file_state(path: &Path, left: &mut u64) -> Option<String> {
    let meta = path.metadata().ok().filter(|meta| meta.is_file())?;
    // Files of the kernel have size 0, and reading some of them blocks.
    if meta.size() == 0 {
        return Some("empty".into());
    }
    let Some(room) = left.checked_sub(meta.size()) else {
        return Some(format!("{} {} {}", meta.size(), meta.mtime(), meta.mtime_nsec()));
    };
    *left = room;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(meta.size()).read_to_end(&mut bytes).ok()?;
    Some(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Cache {
    /// Returns the user's cache, if its folder is known.
    pub(crate) fn of_user() -> Option<Cache> {
        let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
        Some(Cache { path: folder.join("unrack/footprints.json") })
    }

    /// Returns the footprint and the native run time of a command, if they are remembered.
    pub(crate) fn get(&self, key: &Key) -> Option<Weighing> {
        self.entries().get(&key.digest()).map(|entry| entry.weighing)
    }

    /// Remembers the footprint and the native run time of a command.
    pub(crate) fn put(&self, key: &Key, weighing: Weighing) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut entries = self.entries();
        entries.insert(key.digest(), Entry { weighing, at: now.as_secs() });
        while entries.len() > MOST_ENTRIES {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            entries.remove(&oldest.expect("there are more than a few"));
        }
        // Ignored: if the write fails, the footprint is not remembered.
        if self.make_folder().is_ok() {
            let _ = unrack_record::write_private_json(&self.path, &entries);
        }
    }

    /// Makes the folder of the cache, and restricts it to the user.
    fn make_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))
    }

    /// Returns the entries of the cache file, without those of an older version, which named commands by their words.
    fn entries(&self) -> BTreeMap<String, Entry> {
        let mut entries: BTreeMap<String, Entry> = unrack_record::read_json(&self.path).unwrap_or_default();
        entries.retain(|name, _| is_digest(name));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ScratchFolder;
    use crate::footprint::Footprint;

    const WEIGHING: Weighing = Weighing {
        footprint: Footprint { anonymous: 5, kept: 7, shared: 6 },
        wall_s: 0.5,
        is_disturbed: true,
    };

    #[test]
    fn what_was_put_is_found_and_damage_is_forgotten() {
        let folder = ScratchFolder::fast().unwrap();
        let cache = Cache { path: folder.path("deep/footprints.json") };
        let key = |text: &str| Key(text.into());
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("a"), WEIGHING);
        assert_eq!(cache.get(&key("a")), Some(WEIGHING));
        assert_eq!(cache.get(&key("b")), None);
        std::fs::write(&cache.path, "{ \"a\": ").unwrap();
        assert_eq!(cache.get(&key("a")), None);
        cache.put(&key("b"), WEIGHING);
        assert_eq!(cache.get(&key("b")), Some(WEIGHING));
    }

    #[test]
    fn nobody_else_reads_which_commands_were_run() {
        let folder = ScratchFolder::fast().unwrap();
        let cache = Cache { path: folder.path("unrack/footprints.json") };
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let parent = cache.path.parent().unwrap();
        // A cache file of an older version.
        std::fs::create_dir(parent).unwrap();
        std::fs::set_permissions(parent, Permissions::from_mode(0o755)).unwrap();
        let old = r#"{"["login", "--password=x"]": {"anonymous": 1, "shared": 2, "at": 3}}"#;
        std::fs::write(&cache.path, old).unwrap();
        let secret = Key("[\"login\", \"--password=y\"]".into());
        cache.put(&secret, WEIGHING);
        assert_eq!((mode(&cache.path), mode(parent)), (0o600, 0o700));
        let text = std::fs::read_to_string(&cache.path).unwrap();
        assert!(!text.contains("login") && !text.contains("password"), "{text}");
        assert!(text.contains(&secret.digest()));
        assert_eq!(cache.get(&secret), Some(WEIGHING));
        assert_eq!(cache.entries().len(), 1);
    }

    #[test]
    fn other_words_are_another_command() {
        let key = |words: &[&str]| {
            let command: Vec<_> = words.iter().map(Into::into).collect();
            Key::for_program(&Program::resolve(&command).unwrap()).unwrap().0
        };
        assert_eq!(key(&["sh", "-c", "a"]), key(&["sh", "-c", "a"]));
        assert_ne!(key(&["sh", "-c", "a"]), key(&["sh", "-c", "b"]));
        assert_ne!(key(&["sh", "a b"]), key(&["sh", "a", "b"]));
    }

    #[test]
    fn another_script_or_input_is_another_command() {
        let folder = ScratchFolder::fast().unwrap();
        let [script, input] = ["job.sh", "input"].map(|name| folder.path(name));
        let key = || {
            let command = ["sh".into(), script.clone().into(), input.clone().into()];
            Key::for_program(&Program::resolve(&command).unwrap()).unwrap().0
        };
        let without = key();
        std::fs::write(&script, "echo a").unwrap();
        let first = key();
        assert_ne!(first, without);
        std::fs::write(&script, "echo b").unwrap();
        assert_ne!(first, key());
        std::fs::write(&script, "echo a").unwrap();
        assert_eq!(first, key(), "the same bytes, written again");
        // The bytes of the script use up some of the limit.
        let room = TOLD_BY_BYTES - "echo a".len() as u64;
        for bytes in [0, 1, 2, room, room + 1, TOLD_BY_BYTES + 1] {
            let before = key();
            std::fs::File::create(&input).unwrap().set_len(bytes).unwrap();
            assert_ne!(before, key(), "{bytes} bytes");
        }
    }

    #[test]
    fn files_of_the_kernel_are_not_read() {
        let mut left = TOLD_BY_BYTES;
        let kernel_log = Path::new("/proc/kmsg");
        if kernel_log.exists() {
            assert_eq!(file_state(kernel_log, &mut left).unwrap(), "empty");
        }
        assert_eq!(file_state(Path::new("/dev/null"), &mut left), None);
        assert_eq!(left, TOLD_BY_BYTES);
    }

    #[test]
    fn another_build_weighs_again() {
        let build = |sources: &str| Build {
            version: "0.1.0".into(),
            commit: None,
            tree_changed: None,
            sources: sources.into(),
        };
        let key = |sources: &str| {
            let program = Program::resolve(&["sh".into()]).unwrap();
            Key::for_program(&program).unwrap().weighed_by(&build(sources)).0
        };
        assert_eq!(key("a"), key("a"));
        assert_ne!(key("a"), key("b"));
    }
}
