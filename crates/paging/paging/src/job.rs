//! A command that is to be run.

use crate::cache::Key;
use crate::program::Program;
use crate::{Input, PagingError, machine};
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_units::{Bytes, Share};

/// Smallest local memory. With less, a program and its libraries can hardly start.
pub const SMALLEST_LOCAL: Bytes = Bytes::new(1 << 20);

/// A command that was found fit to run with remote memory, on a machine that was found fit for such runs.
#[derive(Debug)]
pub struct CheckedProgram {
    pub(crate) program: Program,
    pub(crate) preload: PathBuf,
    pub input: Input,
}

impl CheckedProgram {
    /// Makes all checks that are possible before the program starts. Standard input is inherited.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no such program; [`PagingError::Lacking`] if it cannot run with remote memory, or if this machine
    /// supports no remote memory.
    pub fn prepare(command: &[OsString]) -> Result<CheckedProgram, PagingError> {
        let program = Program::resolve(command)?;
        CheckedProgram::for_program(program)
    }

    /// Checks only that the program can be run at all. Used for runs in which all memory stays local, because such runs need no support by
    /// the machine. Standard input is inherited.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no such program, [`PagingError::Lacking`] if it cannot be run.
    pub fn for_native_runs(command: &[OsString]) -> Result<CheckedProgram, PagingError> {
        let program = Program::resolve(command)?;
        Ok(CheckedProgram { program, preload: PathBuf::new(), input: Input::Inherited })
    }

    pub(crate) fn for_program(program: Program) -> Result<CheckedProgram, PagingError> {
        machine::check()?;
        Ok(CheckedProgram { program, preload: machine::preload_library()?, input: Input::Inherited })
    }

    /// Returns a text that identifies what a measurement of this command visibly depends on: its words, the program's file, the current
    /// folder, and the files that the words name.
    pub fn identity(&self) -> Option<String> {
        Key::for_program(&self.program).map(Key::into_text)
    }

    /// Returns the command as it was given.
    pub fn command(&self) -> &[OsString] {
        &self.program.command
    }

    /// Returns the command in readable form.
    pub fn words(&self) -> Vec<String> {
        self.program.words()
    }
}

/// Destination of a program's standard output and error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    Inherited,
    /// The output is read and discarded. `/dev/null` is not used, because some programs behave differently when they write to it.
    Discarded,
    /// Standard output and error go to this file, which is replaced.
    File(PathBuf),
    /// Standard output and error go to this file, which is replaced, through a pipe. This process writes the file, so that the file's page
    /// cache is not charged to the program.
    Piped(PathBuf),
}

/// Returns the bytes of local memory that `share` means for a program with this footprint.
///
/// # Errors
/// [`PagingError::Usage`] if the result is less than [`SMALLEST_LOCAL`].
pub fn local_bytes(share: Share, footprint: Bytes) -> Result<Bytes, PagingError> {
    let local = share.of(footprint);
    if local >= SMALLEST_LOCAL {
        return Ok(local);
    }
    Err(PagingError::Usage(match share {
        Share::Size(_) => format!("{share} of local memory is too little: give at least {SMALLEST_LOCAL}"),
        Share::Fraction(_) => format!(
            "{share} of this program's {:.1} MiB is too little local memory, of which at least \
             {SMALLEST_LOCAL} is needed: ask for a larger share, or for a size such as --local 4MiB",
            footprint.get() as f64 / (1 << 20) as f64
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_memory_has_a_lower_bound() {
        let whole = Bytes::new(64 << 20);
        assert_eq!(local_bytes("25%".parse().unwrap(), whole).unwrap(), Bytes::new(16 << 20));
        assert_eq!(local_bytes("1MiB".parse().unwrap(), whole).unwrap(), SMALLEST_LOCAL);
        for too_little in ["1023KiB", "1%", "0%"] {
            let why = local_bytes(too_little.parse().unwrap(), whole).unwrap_err().to_string();
            assert!(why.contains("too little") && why.contains("1MiB"), "{why}");
        }
    }
}
