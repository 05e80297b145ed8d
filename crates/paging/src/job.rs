//! A command to run, and how it ended.

use crate::cache::Key;
use crate::program::Program;
use crate::{Input, PagingError, machine};
use rustix::process::WaitStatus;
use std::ffi::OsString;
use std::path::PathBuf;
use unrack_units::{Bytes, Share};

/// Least local memory: with less, a program and its libraries hardly start.
pub const SMALLEST_LOCAL: Bytes = Bytes::new(1 << 20);

/// A command found fit to run with remote memory, on a machine found fit too.
#[derive(Debug)]
pub struct Job {
    pub(crate) program: Program,
    pub(crate) preload: PathBuf,
    pub input: Input,
}

impl Job {
    /// Checks all that can be checked before anything starts. Standard input is inherited.
    pub fn prepare(command: &[OsString]) -> Result<Job, PagingError> {
        let program = Program::resolve(command)?;
        Job::for_program(program)
    }

    pub(crate) fn for_program(program: Program) -> Result<Job, PagingError> {
        machine::check()?;
        Ok(Job { program, preload: machine::preload_library()?, input: Input::Inherited })
    }

    /// Returns what a measurement of this command visibly depends on: its words, the program's file, the current
    /// folder.
    pub fn identity(&self) -> Option<String> {
        Key::for_program(&self.program).map(Key::into_text)
    }

    /// Returns the command, as a person reads it.
    pub fn words(&self) -> Vec<String> {
        self.program.words()
    }
}

/// Destination of a program's standard output and error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Inherited,
    /// Read and discarded: programs behave differently when they see `/dev/null`.
    Discarded,
    /// Both to this file, which is replaced.
    File(PathBuf),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Exited(u8),
    Signaled(u8),
}

impl Status {
    /// Returns the exit code as a shell gives it: 128 plus the signal's number for a program that was killed.
    pub fn code(self) -> u8 {
        match self {
            Status::Exited(code) => code,
            Status::Signaled(signal) => 128u8.saturating_add(signal),
        }
    }

    /// Returns whether the program ended with exit status 0.
    pub fn is_success(self) -> bool {
        self == Status::Exited(0)
    }
}

impl From<WaitStatus> for Status {
    fn from(status: WaitStatus) -> Status {
        match status.terminating_signal() {
            Some(signal) => Status::Signaled(signal as u8),
            None => Status::Exited(status.exit_status().unwrap_or(0) as u8),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Status::Exited(code) => write!(f, "exit status {code}"),
            Status::Signaled(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Returns how many bytes of local memory `share` is, for a program with this footprint.
///
/// # Errors
/// [`PagingError::Usage`] if that is less than [`SMALLEST_LOCAL`].
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

    #[test]
    fn a_status_is_what_a_shell_says() {
        assert_eq!(Status::Signaled(9).code(), 137);
        assert_eq!(Status::Exited(3).code(), 3);
        assert!(Status::Exited(0).is_success() && !Status::Signaled(0).is_success());
    }
}
