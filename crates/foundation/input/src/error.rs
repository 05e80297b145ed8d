//! Errors for files that cannot be used as input.

use std::fmt;
use std::path::{Path, PathBuf};

/// Error for a file that cannot be used as input. Its text names the file.
#[derive(Debug)]
pub struct InputError {
    pub path: PathBuf,
    pub reason: Reason,
}

/// Reason why a file cannot be used as input. Its text does not name the file.
#[derive(Debug)]
pub enum Reason {
    Unreadable(std::io::Error),
    /// The file is not a regular file. The text describes what it is instead.
    NotAFile(&'static str),
    /// The file is longer than this number of bytes, which is the limit.
    TooLong(u64),
    /// The file is not UTF-8 text. The number is that of the first invalid line, from 1.
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
