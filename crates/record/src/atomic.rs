//! Files that are either complete or absent: written aside in the same folder, then renamed.
//!
//! A link stays, and what it leads to is replaced. What is no file (a device, a pipe) is written to as it is.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::RecordError;

/// Replaces `path` by `bytes` in one step: a reader sees the old content or the new, never a part.
pub fn atomic_write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), RecordError> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(RecordError::io("write", path))?;
    file.commit()
}

/// A file being written, that takes its name on [`AtomicFile::commit`] and vanishes if dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// Until it has its name: where it is, and where it goes.
    aside: Option<(PathBuf, PathBuf)>,
    path: PathBuf,
}

impl AtomicFile {
    pub fn create(path: impl AsRef<Path>) -> Result<AtomicFile, RecordError> {
        let path = path.as_ref().to_path_buf();
        let is_replaced = std::fs::metadata(&path).map_or(true, |there| there.is_file() || there.is_dir());
        if !is_replaced {
            let file = File::options().write(true).open(&path).map_err(RecordError::io("write", &path))?;
            return Ok(AtomicFile { file, aside: None, path });
        }
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        let aside = aside_of(&target);
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&aside)
            .map_err(RecordError::io("create", &path))?;
        Ok(AtomicFile { file, aside: Some((aside, target)), path })
    }

    /// The name the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until what was written is on the disk. Needed only where a power cut matters.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_all().map_err(RecordError::io("write", &self.path))
    }

    /// Gives the file its name.
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
            // Nobody is left to tell: at worst a file ending in `.part` stays behind.
            let _ = std::fs::remove_file(aside);
        }
    }
}

/// A name beside `path` that no other writer uses, in this process or another.
fn aside_of(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn content_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = Scratch::new("atomic-replace");
        let path = folder.join("a.json");
        atomic_write(&path, b"a long first version").unwrap();
        atomic_write(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(names(&folder), ["a.json"]);
    }

    #[test]
    fn a_dropped_file_leaves_the_old_content() {
        let folder = Scratch::new("atomic-drop");
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
        let folder = Scratch::new("atomic-two");
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
        let folder = Scratch::new("atomic-special");
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
    fn the_error_names_the_file_asked_for() {
        let folder = Scratch::new("atomic-error");
        let path = folder.join("absent/a.json");
        let message = atomic_write(&path, b"").unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot create {}: ", path.display())), "{message}");
    }
}
