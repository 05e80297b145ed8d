//! Parser of an ELF file, as far as needed to tell whether a preload library can get into the program.
//!
//! Reference: System V ABI, chapters 4 and 5; `elf(5)`.

use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const INTERPRETER: u32 = 3;
const LONGEST_INTERPRETER: u64 = 4096;

#[cfg(target_arch = "x86_64")]
const THIS_MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const THIS_MACHINE: u16 = 183;

/// Kind of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elf {
    Other,
    /// Built for a 32-bit, big-endian or other processor.
    Foreign,
    /// Names no program loader: nothing can be preloaded.
    Static,
    /// Loaded by this program loader.
    Dynamic(PathBuf),
}

/// Way of the pager into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// The loader preloads it.
    Preload,
    /// Its tracer puts it there.
    Agent,
}

impl Elf {
    /// Returns the way into a program of this machine.
    pub(crate) fn entrance(&self) -> Option<Entrance> {
        match self {
            Elf::Other | Elf::Foreign => None,
            Elf::Static => Some(Entrance::Agent),
            Elf::Dynamic(loader) if is_musl(loader) => Some(Entrance::Agent),
            Elf::Dynamic(_) => Some(Entrance::Preload),
        }
    }
}

/// Returns whether a loader is that of the musl C library, for which the preload library is not built.
fn is_musl(loader: &Path) -> bool {
    loader.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl"))
}

/// Reads the kind of a file.
///
/// # Errors
/// If the file cannot be read, or is an ELF file that is truncated.
pub(crate) fn read(file: &File) -> io::Result<Elf> {
    let mut head = [0u8; 64];
    let len = read_up_to(file, &mut head, 0)?;
    if !head[..len].starts_with(MAGIC) {
        return Ok(Elf::Other);
    }
    if len < head.len() {
        return Err(cut_short());
    }
    if head[4] != CLASS_64 || head[5] != LITTLE_ENDIAN || u16_at(&head, 18) != THIS_MACHINE {
        return Ok(Elf::Foreign);
    }
    let (table, entry, count) = (u64_at(&head, 32), u16_at(&head, 54) as u64, u16_at(&head, 56) as u64);
    for n in 0..count {
        let mut program = [0u8; 56];
        let at = n.checked_mul(entry).and_then(|offset| table.checked_add(offset)).ok_or_else(cut_short)?;
        file.read_exact_at(&mut program, at)?;
        if u32_at(&program, 0) == INTERPRETER {
            return interpreter(file, u64_at(&program, 8), u64_at(&program, 32)).map(Elf::Dynamic);
        }
    }
    Ok(Elf::Static)
}

fn interpreter(file: &File, at: u64, len: u64) -> io::Result<PathBuf> {
    if len > LONGEST_INTERPRETER {
        return Err(cut_short());
    }
    let mut name = vec![0u8; len as usize];
    file.read_exact_at(&mut name, at)?;
    name.truncate(name.iter().position(|b| *b == 0).unwrap_or(name.len()));
    Ok(std::ffi::OsString::from_vec(name).into())
}

pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], at + len as u64) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(len)
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the ELF file is damaged or cut short")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u16_at(bytes, at) as u32 | (u16_at(bytes, at + 2) as u32) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at) as u64 | (u32_at(bytes, at + 4) as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a header with one program header, of `kind`, for an interpreter at the end of both.
    fn elf(kind: u32, interpreter: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&THIS_MACHINE.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[72] = 120;
        bytes[96..104].copy_from_slice(&(interpreter.len() as u64).to_le_bytes());
        bytes.extend(interpreter);
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> io::Result<Elf> {
        let file = crate::folder::unnamed_file().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        read(&file)
    }

    #[test]
    fn the_loader_is_found() {
        let file = elf(INTERPRETER, b"/lib64/ld-linux.so\0");
        assert_eq!(read_bytes(&file).unwrap(), Elf::Dynamic("/lib64/ld-linux.so".into()));
        assert_eq!(read_bytes(&elf(1, b"")).unwrap(), Elf::Static);
    }

    #[test]
    fn other_files_and_machines_are_told_apart() {
        assert_eq!(read_bytes(b"").unwrap(), Elf::Other);
        assert_eq!(read_bytes(b"#!/bin/sh\n").unwrap(), Elf::Other);
        let mut other = elf(1, b"");
        other[18] = 40;
        assert_eq!(read_bytes(&other).unwrap(), Elf::Foreign);
    }

    #[test]
    fn damaged_files_are_errors_wherever_they_are_cut() {
        let whole = elf(INTERPRETER, b"/lib64/ld-linux.so\0");
        for len in 4..whole.len() {
            assert!(read_bytes(&whole[..len]).is_err(), "cut at {len}");
        }
        let mut endless = whole.clone();
        endless[96..104].fill(0xff);
        assert!(read_bytes(&endless).is_err());
        let mut far = whole;
        far[32..40].fill(0xff);
        assert!(read_bytes(&far).is_err());
    }
}
