//! memcached: commands and answers of its text protocol (`doc/protocol.txt`). A record is a single value that contains all fields.
//!
//! Departure: an update writes all fields. YCSB's binding instead replaces the value by the updated field alone, so that its records become
//! smaller over time.

use super::connection::Connection;
use super::driver::Read;
use super::record::{FIELD_BYTES, FIELDS, fill};
use crate::ProgramError;

/// Appends the command that writes a record.
pub(super) fn write(to: &mut Connection, key: &[u8], seed: u64) {
    let out = &mut to.commands;
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.extend_from_slice(format!(" 0 0 {}\r\n", FIELDS * FIELD_BYTES).as_bytes());
    let mut value = String::new();
    for field in 0..FIELDS {
        fill(&mut value, seed ^ field as u64);
        out.extend_from_slice(value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the command that reads a record.
pub(super) fn read(to: &mut Connection, key: &[u8]) {
    to.commands.extend_from_slice(b"get ");
    to.commands.extend_from_slice(key);
    to.commands.extend_from_slice(b"\r\n");
}

/// Reads the answer to [`write`].
pub(super) fn written(from: &mut Connection) -> Result<(), ProgramError> {
    match from.line()? {
        "STORED" => Ok(()),
        line => Err(ProgramError::Answer(line.into())),
    }
}

/// Reads the answer to [`read`], which contains the value unless there is no such record.
pub(super) fn record(from: &mut Connection, read: &mut Read) -> Result<(), ProgramError> {
    let line = from.line()?;
    if line == "END" {
        return Ok(());
    }
    let bytes = line.strip_prefix("VALUE ").and_then(|rest| rest.rsplit(' ').next()?.parse().ok());
    let bytes = bytes.ok_or_else(|| ProgramError::Answer(line.into()))?;
    from.skip(bytes)?;
    read.records += 1;
    read.bytes += bytes;
    match from.line()? {
        "END" => Ok(()),
        line => Err(ProgramError::Answer(line.into())),
    }
}
