//! Files that only their owner can access or change.

use crate::Error;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum bytes that are read of a file of keys. The list of trusted keys may have ten thousand lines.
const MOST_BYTES: u64 = 1 << 20;

/// Access that other users must not have.
#[derive(Clone, Copy)]
pub(crate) enum PrivateAccess {
    /// Neither reading nor writing; for secrets.
    Read,
    /// No writing; for lists that are trusted.
    Write,
}

/// Reads a regular file. The file must belong to this user or root, and other users must not have the access that `guard` names.
pub(crate) fn read(path: &Path, guard: PrivateAccess) -> Result<String, Error> {
    // NONBLOCK, because opening a FIFO or a device must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| Error::file(path)(errno.into()))?,
    );
    let found = file.metadata().map_err(Error::file(path))?;
    if !found.is_file() {
        return Err(Error::Malformed { path: path.into(), why: "is no regular file".into() });
    }
    check_owner(path, found.uid())?;
    let (others, what, mode) = match guard {
        PrivateAccess::Read => (0o077, "read", "600"),
        PrivateAccess::Write => (0o022, "written", "go-w"),
    };
    if found.mode() & others != 0 {
        return Err(Error::NotPrivate { path: path.into(), what, mode });
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(Error::file(path))?;
    Ok(text)
}

/// Fails if other users may write to a folder.
pub(crate) fn check_folder(path: &Path) -> Result<(), Error> {
    let found = std::fs::metadata(path).map_err(Error::file(path))?;
    check_owner(path, found.uid())?;
    match found.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(Error::NotPrivate { path: path.into(), what: "written", mode: "go-w" }),
    }
}

fn check_owner(path: &Path, uid: u32) -> Result<(), Error> {
    let ours = rustix::process::geteuid().as_raw();
    if uid == ours || uid == 0 { Ok(()) } else { Err(Error::Foreign { path: path.into() }) }
}

/// Makes a new file with mode 0600.
pub(crate) fn create_new(path: &Path, text: &str) -> Result<(), Error> {
    let failed = Error::file(path);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made =
        rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| failed(errno.into()))?;
    let mut file = File::from(made);
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|why| {
        // A partially written file is useless.
        let _ = std::fs::remove_file(path);
        failed(why)
    })
}

/// Replaces a file: writes a new file with mode 0600 in the same folder, and renames it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let aside = path.with_extension(format!("{}.new", std::process::id()));
    match std::fs::remove_file(&aside) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(Error::file(&aside)(why)),
        _ => {}
    }
    create_new(&aside, text)?;
    std::fs::rename(&aside, path).map_err(Error::file(path))
}
