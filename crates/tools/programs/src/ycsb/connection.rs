//! A connection to a store. Commands are collected and sent together; answers are read through a buffer.

use crate::ProgramError;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Longest line of an answer, in bytes.
const LONGEST_LINE: u64 = 4096;

pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    /// Commands that have not been sent yet.
    pub commands: Vec<u8>,
    line: Vec<u8>,
}

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Connection, ProgramError> {
        let stream = BufReader::with_capacity(1 << 16, UnixStream::connect(socket)?);
        Ok(Connection { stream, commands: Vec::new(), line: Vec::new() })
    }

    /// Sends the collected commands.
    pub(super) fn send(&mut self) -> Result<(), ProgramError> {
        self.stream.get_mut().write_all(&self.commands)?;
        self.commands.clear();
        Ok(())
    }

    /// Reads a line of an answer, and returns it without its terminator (`\r\n`).
    pub(super) fn line(&mut self) -> Result<&str, ProgramError> {
        self.line.clear();
        (&mut self.stream).take(LONGEST_LINE).read_until(b'\n', &mut self.line)?;
        let text = self.line.strip_suffix(b"\r\n").and_then(|line| std::str::from_utf8(line).ok());
        text.ok_or_else(|| ProgramError::Answer(String::from_utf8_lossy(&self.line).into_owned()))
    }

    /// Skips `bytes` bytes of a value, and the value's terminator (`\r\n`).
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), ProgramError> {
        let wanted = bytes + 2;
        let got = std::io::copy(&mut (&mut self.stream).take(wanted), &mut std::io::sink())?;
        match got == wanted {
            true => Ok(()),
            false => Err(ProgramError::Answer(format!("a value cut off after {got} of {wanted} bytes"))),
        }
    }
}
