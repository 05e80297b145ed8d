//! Parser of an ELF file, as far as needed to decide whether a preload library can be loaded into the program.
//!
//! Only the header and the program headers are parsed. The kernel and the loader use only those two, so a file whose other tables are
//! damaged is accepted too.
//!
//! Reference: System V ABI, chapters 4 and 5; `elf(5)`.

use ::elf::abi::{EI_CLASS, EI_DATA, EI_NIDENT, ELFCLASS64, ELFDATA2LSB, ELFMAGIC, PT_INTERP};
use ::elf::endian::LittleEndian;
use ::elf::file::{Class, FileHeader};
use ::elf::parse::ParseAt;
use ::elf::segment::ProgramHeader;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const LONGEST_INTERPRETER: u64 = 4096;

#[cfg(target_arch = "x86_64")]
const THIS_MACHINE: u16 = ::elf::abi::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const THIS_MACHINE: u16 = ::elf::abi::EM_AARCH64;

/// Kind of an executable file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elf {
    Other,
    /// Built for a 32-bit, big-endian or other processor.
    Foreign,
    /// Names no program loader, so that no library can be preloaded.
    Static,
    /// Loaded by the program loader at this path.
    Dynamic(PathBuf),
}

/// How the pager gets into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagerEntry {
    /// The loader preloads the pager.
    Preload,
    /// The tracer of the program injects the pager.
    Agent,
}

impl Elf {
    /// Returns how the pager gets into the program; `None` if the file is not a program for this machine.
    pub(crate) fn entrance(&self) -> Option<PagerEntry> {
        match self {
            Elf::Other | Elf::Foreign => None,
            Elf::Static => Some(PagerEntry::Agent),
            Elf::Dynamic(loader) if is_musl(loader) => Some(PagerEntry::Agent),
            Elf::Dynamic(_) => Some(PagerEntry::Preload),
        }
    }
}

/// Returns whether a loader belongs to the musl C library, for which the preload library is not built.
fn is_musl(loader: &Path) -> bool {
    loader.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl"))
}

/// Reads the header of a file, and returns the kind of the file.
///
/// # Errors
/// If the file cannot be read, or is a truncated ELF file.
pub(crate) fn read(file: &File) -> io::Result<Elf> {
    let mut head = [0u8; 64];
    let len = read_up_to(file, &mut head, 0)?;
    if !head[..len].starts_with(&ELFMAGIC) {
        return Ok(Elf::Other);
    }
    if len < head.len() {
        return Err(cut_short());
    }
    if head[EI_CLASS] != ELFCLASS64 || head[EI_DATA] != ELFDATA2LSB {
        return Ok(Elf::Foreign);
    }
    let ident = (LittleEndian, Class::ELF64, 0, 0);
    let header = FileHeader::parse_tail(ident, &head[EI_NIDENT..]).map_err(|_| cut_short())?;
    if header.e_machine != THIS_MACHINE {
        return Ok(Elf::Foreign);
    }
    for n in 0..u64::from(header.e_phnum) {
        let mut bytes = [0u8; size_of::<::elf::segment::Elf64_Phdr>()];
        let offset = n.checked_mul(u64::from(header.e_phentsize));
        let at = offset.and_then(|offset| header.e_phoff.checked_add(offset)).ok_or_else(cut_short)?;
        file.read_exact_at(&mut bytes, at)?;
        let segment = ProgramHeader::parse_at(LittleEndian, Class::ELF64, &mut 0, &bytes);
        let segment = segment.map_err(|_| cut_short())?;
        if segment.p_type == PT_INTERP {
            return interpreter(file, segment.p_offset, segment.p_filesz).map(Elf::Dynamic);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an ELF header with one program header of type `kind`, which refers to an interpreter behind both.
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
        let file = elf(PT_INTERP, b"/lib64/ld-linux.so\0");
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
        let whole = elf(PT_INTERP, b"/lib64/ld-linux.so\0");
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
