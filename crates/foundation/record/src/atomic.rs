//! Files that are either complete or absent: each is written under a temporary name in the same folder, and then renamed.
//!
//! A symbolic link is kept, and its target is replaced. A path that is not a regular file (a device, a pipe) is written to directly.
//!
//! A file is locked while it is written. If the writing process is killed, the file stays behind unlocked, and the next process that writes
//! into the same folder removes it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{RecordError, lock};

/// Mode of new files: `USUAL` is limited only by the process's umask, `PRIVATE` gives access to the owner only.
const USUAL: u32 = 0o666;
const PRIVATE: u32 = 0o600;

/// Replaces the file `path` by `bytes` atomically: a reader sees either the old or the new content, never a part.
///
/// # Errors
/// If the file cannot be written.
pub fn atomic_write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), RecordError> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(RecordError::io("write", path))?;
    file.commit()
}

/// File that is being written. It gets its name on [`AtomicFile::commit`], and is removed if dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// Temporary path and target path; `None` once the file has its final name.
    aside: Option<(PathBuf, PathBuf)>,
    path: PathBuf,
}

impl AtomicFile {
    /// Starts to write the file `path`.
    ///
    /// # Errors
    /// If the folder of the file is absent or not writable.
    pub fn create(path: impl AsRef<Path>) -> Result<AtomicFile, RecordError> {
        AtomicFile::with_mode(path.as_ref(), USUAL)
    }

    /// Starts to write a file that only this user can read, independently of the mode of an existing file.
    ///
    /// # Errors
    /// If the folder of the file is absent or not writable.
    pub fn create_private(path: impl AsRef<Path>) -> Result<AtomicFile, RecordError> {
        AtomicFile::with_mode(path.as_ref(), PRIVATE)
    }

    fn with_mode(path: &Path, mode: u32) -> Result<AtomicFile, RecordError> {
        let path = path.to_path_buf();
        let is_replaced = std::fs::metadata(&path).map_or(true, |there| there.is_file() || there.is_dir());
        if !is_replaced {
            let file = File::options().write(true).open(&path).map_err(RecordError::io("write", &path))?;
            return Ok(AtomicFile { file, aside: None, path });
        }
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        sweep_once(target.parent().unwrap_or(Path::new("")));
        loop {
            let aside = aside_of(&target);
            if let Some(file) = lock::create(&aside, mode).map_err(RecordError::io("create", &path))? {
                return Ok(AtomicFile { file, aside: Some((aside, target)), path });
            }
        }
    }

    /// Returns the final name of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the written data are on the disk. Needed only if the file must survive a power failure.
    ///
    /// # Errors
    /// If the disk reports an error.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_all().map_err(RecordError::io("write", &self.path))
    }

    /// Renames the file to its final name.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn commit(mut self) -> Result<(), RecordError> {
        if let Some((aside, target)) = &self.aside {
            std::fs::rename(aside, target).map_err(RecordError::io("write", &self.path))?;
        }
        self.aside = None;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some((aside, _)) = &self.aside {
            // An error cannot be reported here; at worst the file stays until the next sweep.
            let _ = std::fs::remove_file(aside);
        }
    }
}

/// Returns a name in the folder of `path` that no other writer uses, in this process or another.
fn aside_of(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}.part", std::process::id()));
    path.with_file_name(name)
}

/// Returns whether a name has the form of the names that [`aside_of`] returns.
fn is_aside(name: &str) -> bool {
    let of_writer = |writer: &str| {
        let (process, number) = writer.split_once('-')?;
        Some(process.parse::<u32>().is_ok() && number.parse::<u64>().is_ok())
    };
    let writer = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part")?.rsplit_once('.'));
    writer.and_then(|(_, writer)| of_writer(writer)).unwrap_or(false)
}

/// Removes partial files that killed processes left in this folder, once for each folder to which this process writes.
fn sweep_once(folder: &Path) {
    static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SWEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.into()) {
        sweep(folder);
    }
}

fn sweep(folder: &Path) {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(here) else { return };
    for entry in entries.flatten().filter(|entry| is_aside(&entry.file_name().to_string_lossy())) {
        if let Some(_claim) = lock::claim_abandoned(&entry.path()) {
            // If this fails, the next sweep finds the file again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn content_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = TestFolder::new("atomic-replace");
        let path = folder.join("a.json");
        atomic_write(&path, b"a long first version").unwrap();
        atomic_write(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(names(&folder), ["a.json"]);
    }

    #[test]
    fn a_dropped_file_leaves_the_old_content() {
        let folder = TestFolder::new("atomic-drop");
        let path = folder.join("a.json");
        atomic_write(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(names(&folder).len(), 2);
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&folder), ["a.json"]);
    }

    #[test]
    fn two_writers_of_one_file_do_not_meet() {
        let folder = TestFolder::new("atomic-two");
        let path = folder.join("a.json");
        let (mut a, mut b) = (AtomicFile::create(&path).unwrap(), AtomicFile::create(&path).unwrap());
        a.write_all(b"aaaa").unwrap();
        b.write_all(b"bb").unwrap();
        a.commit().unwrap();
        b.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"bb");
    }

    #[test]
    fn a_link_stays_and_so_does_a_pipe() {
        let folder = TestFolder::new("atomic-special");
        let [file, link, pipe] = ["a.json", "link", "pipe"].map(|name| folder.join(name));
        atomic_write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        atomic_write(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());

        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        atomic_write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&pipe).unwrap().file_type()));
        assert_eq!(names(&folder).len(), 3);
    }

    #[test]
    fn only_what_a_dead_writer_left_is_swept() {
        let folder = TestFolder::new("atomic-sweep");
        let alive = AtomicFile::create(folder.join("a.json")).unwrap();
        let dead = aside_of(&folder.join("a.json"));
        // A file of the user, and files whose names resemble those of unfinished files only at the end.
        let others = [folder.join("b.part"), folder.join(".c.json.x-0.part"), folder.join(".d.part")];
        [&dead, &others[0], &others[1], &others[2]]
            .into_iter()
            .for_each(|path| std::fs::write(path, "x").unwrap());
        let foreign = aside_of(&folder.join("e.json"));
        std::fs::write(&foreign, "x").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
        } else {
            eprintln!("skipped: only root can make a file of another user");
        }
        sweep(&folder);
        assert!(!dead.exists());
        others.iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
        assert_eq!(foreign.exists(), is_root);
        alive.commit().unwrap();
        assert!(folder.join("a.json").exists());
    }

    #[test]
    fn the_first_file_of_a_process_in_a_folder_sweeps_it() {
        let folder = TestFolder::new("atomic-sweep-once");
        let dead = aside_of(&folder.join("a.json"));
        std::fs::write(&dead, "half").unwrap();
        atomic_write(folder.join("b.json"), b"").unwrap();
        assert_eq!(names(&folder), ["b.json"]);
    }

    #[test]
    fn names_of_parts_are_told_from_others() {
        assert!(is_aside(&aside_of(Path::new("x/trace.parquet")).file_name().unwrap().to_string_lossy()));
        for name in ["a.1-2.part", ".a.12.part", ".a.1-.part", ".a.1-2.part2", ".part", "..part", ".1-2.part"]
        {
            assert!(!is_aside(name), "{name}");
        }
    }

    #[test]
    fn a_private_file_replaces_one_that_all_could_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = TestFolder::new("atomic-private");
        let path = folder.join("a.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut file = AtomicFile::create_private(&path).unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.file), 0o600, "never, not even while it is written");
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(mode(&File::open(&path).unwrap()), 0o600);
    }

    #[test]
    fn the_error_names_the_file_asked_for() {
        let folder = TestFolder::new("atomic-error");
        let path = folder.join("absent/a.json");
        let message = atomic_write(&path, b"").unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot create {}: ", path.display())), "{message}");
    }
}
