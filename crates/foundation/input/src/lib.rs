//! Reads input that others wrote: only regular files, with a size limit, and quoted in errors to at most one line. Also reads the kernel's
//! files about memory.
//!
//! This is a separate crate because crates that do not depend on each other read files: scenarios, tables, traces, memory limits.
//!
//! | to | use |
//! |---|---|
//! | read a whole file, or its text | [`read`], [`read_text`] |
//! | open a file for another library | [`open`] |
//! | read standard input to its end | [`read_stdin`] |
//! | quote part of an input in an error | [`clipped`] |
//! | find out how much memory a process can still get | [`memory`] |
//!
//! A device, a pipe, a socket or a folder is rejected before any byte is read, and opening a pipe does not wait for a writer. Each caller
//! sets the size limit of its files.
#![forbid(unsafe_code)]

mod clip;
mod error;
pub mod memory;

pub use clip::{WIDTH, clipped, clipped_to};
pub use error::{InputError, Reason};

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file of at most `most` bytes.
///
/// # Errors
/// If the file cannot be opened, is not a regular file, or is longer.
pub fn open(path: impl AsRef<Path>, most: u64) -> Result<File, InputError> {
    let path = path.as_ref();
    let fail = |reason| InputError::new(path, reason);
    // NOCTTY, so that a terminal does not become the controlling terminal of this process.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|why| fail(Reason::Unreadable(why)))?;
    let metadata = file.metadata().map_err(|why| fail(Reason::Unreadable(why)))?;
    match not_a_file(metadata.file_type()) {
        Some(kind) => Err(fail(Reason::NotAFile(kind))),
        None if metadata.len() > most => Err(fail(Reason::TooLong(most))),
        None => Ok(file),
    }
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// If the file cannot be read, is not a regular file, or is longer.
pub fn read(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, InputError> {
    let path = path.as_ref();
    to_end(path, open(path, most)?, most)
}

/// Reads a regular file of at most `most` bytes of UTF-8 text.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is longer, or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> Result<String, InputError> {
    let path = path.as_ref();
    as_text(path, read(path, most)?)
}

/// Reads at most `most` bytes of UTF-8 text from standard input, which may be a file of any type.
///
/// # Errors
/// If the input cannot be read, is longer, or is not UTF-8. The error names the input `stdin`.
pub fn read_stdin(most: u64) -> Result<String, InputError> {
    let name = Path::new("stdin");
    as_text(name, to_end(name, io::stdin().lock(), most)?)
}

/// Describes the type of a file that is not a regular file; `None` for a regular file.
fn not_a_file(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Reads to the end, but checks the limit again, because a file may have grown since its length was checked, and files of /proc report
/// length 0.
fn to_end(path: &Path, from: impl Read, most: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    match from.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        Err(why) => Err(InputError::new(path, Reason::Unreadable(why))),
        Ok(_) if bytes.len() as u64 > most => Err(InputError::new(path, Reason::TooLong(most))),
        Ok(_) => Ok(bytes),
    }
}

fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, InputError> {
    String::from_utf8(bytes).map_err(|why| {
        let good = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        InputError::new(path, Reason::NotText(line))
    })
}

#[cfg(test)]
mod tests;
