//! Errors of files that cannot be an input.

use std::fmt;
use std::path::{Path, PathBuf};

/// File that cannot be an input. The text names the file.
#[derive(Debug)]
pub struct InputError {
    pub path: PathBuf,
    pub reason: Reason,
}

/// Reason why a file cannot be an input; the text does not name the file.
#[derive(Debug)]
pub enum Reason {
    Unreadable(std::io::Error),
    /// Not a regular file but this, in words.
    NotAFile(&'static str),
    /// Longer than the allowed number of bytes.
    TooLong(u64),
    /// Not UTF-8; the number of the first such line, from 1.
    NotText(usize),
}

impl InputError {
    pub(crate) fn new(path: &Path, reason: Reason) -> InputError {
        InputError { path: path.into(), reason }
    }
}

impl std::error::Error for InputError {}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let path = self.path.display();
        match &self.reason {
            Reason::Unreadable(why) => write!(f, "cannot read {path}: {why}"),
            Reason::NotText(line) => write!(f, "{path}:{line}: this line is not UTF-8 text"),
            reason => write!(f, "{path} {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reason::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Reason::NotAFile(kind) => write!(f, "is {kind}, where a file is needed"),
            Reason::TooLong(most) if most.is_multiple_of(1 << 20) => {
                write!(f, "is longer than {} MiB, too long for what it is to be", most >> 20)
            }
            Reason::TooLong(most) => write!(f, "is longer than {most} bytes, too long for what it is to be"),
            Reason::NotText(line) => write!(f, "is not UTF-8 text in line {line}"),
        }
    }
}
