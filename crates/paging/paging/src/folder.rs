//! Temporary files that pagers and `unrack` share during a run.

use crate::PagingError;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use unrack_record::temporary::{self, TemporaryFolder};

/// Memory-backed file system, on which writing causes no disk access.
const FAST: &str = "/dev/shm";
/// Maximum bytes of a path, because the preload library keeps the path in a buffer of fixed size.
const LONGEST_PATH: usize = 400;

/// Temporary folder for this process alone. It is removed at the latest after the process has ended.
#[derive(Debug)]
pub(crate) struct ScratchFolder(TemporaryFolder);

impl ScratchFolder {
    /// Makes a folder in memory if possible, otherwise in the folder that `TMPDIR` names.
    pub(crate) fn fast() -> Result<ScratchFolder, PagingError> {
        TemporaryFolder::within(Path::new(FAST)).map(ScratchFolder).or_else(|_| ScratchFolder::roomy())
    }

    /// Makes a folder for large files, in the folder that `TMPDIR` names.
    pub(crate) fn roomy() -> Result<ScratchFolder, PagingError> {
        let parent = std::env::temp_dir();
        let folder = TemporaryFolder::within(&parent)
            .map_err(PagingError::failed(format_args!("make a folder in {}", parent.display())))?;
        match folder.whole().as_os_str().as_bytes().len() <= LONGEST_PATH {
            true => Ok(ScratchFolder(folder)),
            false => Err(PagingError::Usage(format!("the path in TMPDIR is too long: {}", parent.display()))),
        }
    }
}

impl Deref for ScratchFolder {
    type Target = TemporaryFolder;
    fn deref(&self) -> &TemporaryFolder {
        &self.0
    }
}

/// Removes the temporary folders that killed processes of this user left behind.
pub fn sweep() {
    temporary::sweep(Path::new(FAST));
    temporary::sweep(&std::env::temp_dir());
}

/// Makes a file without a name, which disappears when it is closed.
pub(crate) fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let parent = std::env::temp_dir();
    let (read_write, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(&parent, read_write | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(file.into()),
        // This file system does not support unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let folder = TemporaryFolder::within(&parent)?;
            File::options().read(true).write(true).create_new(true).open(folder.path("file"))
        }
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn folders_are_made_where_they_belong() {
        assert_ne!(ScratchFolder::fast().unwrap().whole(), ScratchFolder::fast().unwrap().whole());
        let roomy = ScratchFolder::roomy().unwrap();
        assert_eq!(roomy.whole().parent(), Some(&*std::env::temp_dir()));
    }

    #[test]
    fn an_unnamed_file_is_written_and_read() {
        let mut file = unnamed_file().unwrap();
        file.write_all(b"kept").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept");
    }
}
