//! redis: commands and answers of its protocol (RESP 2), used in the same way as by YCSB's binding. A record is a hash. For scans, a sorted
//! set contains all keys, ordered by a number that is computed from the bytes of each key.

use super::connection::Connection;
use super::driver::Read;
use super::record::{FIELDS, fill, name};
use crate::ProgramError;
use unrack_basis::fnv_1a;

/// Name of the sorted set (`RedisClient.INDEX_KEY`).
const INDEX: &[u8] = b"_indices";

/// Appends a command that consists of these words.
fn command(to: &mut Connection, words: &[&[u8]]) {
    let out = &mut to.commands;
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the commands that write a whole record.
pub(super) fn insert(to: &mut Connection, key: &[u8], seed: u64) {
    let names: Vec<String> = (0..FIELDS).map(name).collect();
    let mut values = vec![String::new(); FIELDS];
    for (field, value) in values.iter_mut().enumerate() {
        fill(value, seed ^ field as u64);
    }
    let mut words: Vec<&[u8]> = vec![b"HSET", key];
    for (name, value) in names.iter().zip(&values) {
        words.extend([name.as_bytes(), value.as_bytes()]);
    }
    command(to, &words);
    command(to, &[b"ZADD", INDEX, score(key).as_bytes(), key]);
}

/// Appends the command that writes one field.
pub(super) fn update(to: &mut Connection, key: &[u8], field: usize, seed: u64) {
    let mut value = String::new();
    fill(&mut value, seed);
    command(to, &[b"HSET", key, name(field).as_bytes(), value.as_bytes()]);
}

/// Appends the command that reads a record.
pub(super) fn read(to: &mut Connection, key: &[u8]) {
    command(to, &[b"HGETALL", key]);
}

/// Appends the command that returns `length` keys, starting at `key`.
pub(super) fn find(to: &mut Connection, key: &[u8], length: u64) {
    let (score, length) = (score(key), length.to_string());
    let words =
        [b"ZRANGEBYSCORE".as_slice(), INDEX, score.as_bytes(), b"inf", b"LIMIT", b"0", length.as_bytes()];
    command(to, &words);
}

fn score(key: &[u8]) -> String {
    // The score is a double, which represents integers of up to 53 bits exactly.
    (fnv_1a(key) >> 12).to_string()
}

/// Reads the answer to a write, which is a number.
pub(super) fn written(from: &mut Connection) -> Result<(), ProgramError> {
    let line = from.line()?;
    match line.strip_prefix(':') {
        Some(_) => Ok(()),
        None => Err(ProgramError::Answer(line.into())),
    }
}

/// Reads the answer to a read, which contains the names and values of the record's fields.
pub(super) fn record(from: &mut Connection, read: &mut Read) -> Result<(), ProgramError> {
    let words = length(from.line()?, '*')?;
    for word in 0..words {
        let bytes = length(from.line()?, '$')?;
        from.skip(bytes)?;
        read.bytes += if word % 2 == 1 { bytes } else { 0 };
    }
    read.records += u64::from(words > 0);
    Ok(())
}

/// Reads the answer to [`find`], which is a list of keys.
pub(super) fn keys(from: &mut Connection) -> Result<Vec<Vec<u8>>, ProgramError> {
    let words = length(from.line()?, '*')?;
    let mut keys = Vec::new();
    for _ in 0..words {
        length(from.line()?, '$')?;
        keys.push(from.line()?.as_bytes().to_vec());
    }
    Ok(keys)
}

/// Returns the number in a line that begins with `sign`.
fn length(line: &str, sign: char) -> Result<u64, ProgramError> {
    line.strip_prefix(sign)
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| ProgramError::Answer(line.into()))
}
