//! Reading of what others wrote: input files, regular files only, bounded, and quoted in errors to at most one line; and the
//! kernel's files on memory.
//!
//! It is a crate because crates that know nothing of each other read files: scenarios, tables, traces, limits of memory.
//!
//! | to | use |
//! |---|---|
//! | read a whole file, or its text | [`read`], [`read_text`] |
//! | open a file for another library | [`open`] |
//! | read the standard input to its end | [`read_stdin`] |
//! | quote part of an input in an error | [`clipped`] |
//! | know how much memory there is for a process | [`memory`] |
//!
//! A device, a pipe, a socket or a folder is refused before a byte of it is read; opening one does not wait for a
//! writer. Each caller sets the largest length of its files.
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
/// If it cannot be opened, is not a regular file, or is longer.
pub fn open(path: impl AsRef<Path>, most: u64) -> Result<File, InputError> {
    let path = path.as_ref();
    let fail = |reason| InputError::new(path, reason);
    // A terminal does not become the controlling terminal of this process either.
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
/// If it cannot be read, is not a regular file, or is longer.
pub fn read(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, InputError> {
    let path = path.as_ref();
    to_end(path, open(path, most)?, most)
}

/// Reads a regular file of at most `most` bytes of UTF-8 text.
///
/// # Errors
/// If it cannot be read, is not a regular file, is longer, or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> Result<String, InputError> {
    let path = path.as_ref();
    as_text(path, read(path, most)?)
}

/// Reads at most `most` bytes of UTF-8 text from the standard input, of any type.
///
/// # Errors
/// If it cannot be read, is longer, or is not UTF-8. They name it `stdin`.
pub fn read_stdin(most: u64) -> Result<String, InputError> {
    let name = Path::new("stdin");
    as_text(name, to_end(name, io::stdin().lock(), most)?)
}

/// Returns the type of a path's target in words; `None` for a regular file.
fn not_a_file(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_fifo() => Some("a pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Reads to the end. A file may have grown since its length was checked, and files of /proc report length 0.
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
