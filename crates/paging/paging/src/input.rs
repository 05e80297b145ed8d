//! Standard input of a program that is run several times, so that every run reads the same bytes.

use crate::PagingError;
use crate::folder::unnamed_file;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;

/// Standard input of a program.
#[derive(Debug, Clone)]
pub enum Input {
    /// The standard input of `unrack` itself, which only one run can read.
    Inherited,
    /// No input. Used for a terminal, which cannot be read twice.
    Empty,
    /// A file, read from an offset in bytes.
    Kept { file: Arc<File>, offset: u64 },
}

impl Input {
    /// Makes the standard input of `unrack` readable any number of times. Input from a pipe is first copied completely to a temporary file.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if a pipe cannot be read, or its contents cannot be written to a temporary file.
    pub fn repeatable() -> Result<Input, PagingError> {
        keep(io::stdin().as_fd()).map_err(PagingError::failed("keep the standard input for repeated runs"))
    }

    /// Returns the standard input for one run.
    ///
    /// # Errors
    /// If the file cannot be opened again.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.file()?.map_or_else(Stdio::inherit, Stdio::from))
    }

    /// Opens the input for one run; `None` if the run inherits the standard input of `unrack`.
    pub(crate) fn file(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Input::Inherited => Ok(None),
            Input::Empty => Ok(Some(File::open("/dev/null")?.into())),
            Input::Kept { file, offset } => {
                // Opened again, because runs must not share a file offset.
                let mut again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
                again.seek(SeekFrom::Start(*offset))?;
                Ok(Some(again.into()))
            }
        }
    }
}

fn keep(stdin: std::os::fd::BorrowedFd) -> io::Result<Input> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(own) = stdin.try_clone_to_owned() else { return Ok(Input::Empty) };
    let mut file = File::from(own);
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        let offset = file.stream_position()?;
        return Ok(Input::Kept { file: file.into(), offset });
    }
    if !kind.is_fifo() && !kind.is_socket() {
        return Ok(Input::Empty);
    }
    let mut kept = unnamed_file()?;
    io::copy(&mut file, &mut kept)?;
    Ok(Input::Kept { file: kept.into(), offset: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn run_cat(input: &Input) -> Vec<u8> {
        let mut command = std::process::Command::new("cat");
        command.stdin(input.stdio().unwrap()).output().unwrap().stdout
    }

    #[test]
    fn a_pipe_is_read_as_often_as_needed() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"one\ntwo\n").unwrap();
        drop(writer);
        let input = keep(reader.as_fd()).unwrap();
        assert_eq!(run_cat(&input), b"one\ntwo\n");
        assert_eq!(run_cat(&input), b"one\ntwo\n");
    }

    #[test]
    fn a_file_is_read_from_where_it_stands() {
        let mut file = unnamed_file().unwrap();
        file.write_all(b"read already, and the rest").unwrap();
        file.seek(SeekFrom::Start(14)).unwrap();
        let input = keep(file.as_fd()).unwrap();
        assert_eq!(run_cat(&input), b"and the rest");
        assert_eq!(run_cat(&input), b"and the rest");
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "and the rest", "its own position has not moved");
    }

    #[test]
    fn devices_are_empty() {
        let null = File::open("/dev/null").unwrap();
        assert!(matches!(keep(null.as_fd()).unwrap(), Input::Empty));
    }
}
