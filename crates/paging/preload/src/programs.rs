//! Programs that this process becomes or starts and into which this library cannot be preloaded. The tracer has to put the pager into such
//! a program; therefore this library asks the tracer before the program begins.
//!
//! This code may run in the child of a `vfork`. Therefore it allocates no memory and leaves `errno` unchanged, and it reads ELF headers
//! itself, because a library for that could allocate or end the process.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags};
use std::ffi::CStr;
use unrack_pager::control::{EXEC, SPAWN};
use unrack_pager::door::ask;
use unrack_pager::{attached, gate};

const LONGEST_NAME: usize = 256;
const LONGEST_PATH: usize = 4096;
const INTERPRETER: u32 = 3;
const MOST_SEGMENTS: u64 = 64;
/// Folders in which programs are searched if `PATH` is not set.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";

/// Asks `unrack` to trace this thread if the file at `path` is a program into which this library cannot be preloaded. The thread is about
/// to become that program.
pub(crate) fn becomes(path: &CStr) {
    if may_ask() && needs_tracer(path) {
        ask(EXEC);
    }
}

/// Asks `unrack` to trace a process that this thread is about to start, under the same condition as [`becomes`].
pub(crate) fn starts(path: &CStr) {
    if may_ask() && needs_tracer(path) {
        ask(SPAWN);
    }
}

/// Returns whether this process belongs to a run and may make system calls that the program did not make.
fn may_ask() -> bool {
    attached::control().is_some() && !gate::is_filtered()
}

/// Calls `f` with the file of a program, which is searched in `PATH` like in `execvp(3)`.
pub(crate) fn find(name: &CStr, f: impl FnOnce(&CStr)) {
    let name = name.to_bytes();
    let mut path = [0u8; LONGEST_PATH];
    let fits = |len: usize| len < LONGEST_PATH;
    if name.contains(&b'/') {
        if fits(name.len()) {
            path[..name.len()].copy_from_slice(name);
        }
        return CStr::from_bytes_until_nul(&path).map_or((), f);
    }
    // SAFETY: a string of the environment ends in NUL. If another thread changes it at this moment, `execvp` would fail as well.
    let folders = unsafe {
        let value = libc::getenv(c"PATH".as_ptr());
        if value.is_null() { USUAL_PATH } else { CStr::from_ptr(value).to_bytes() }
    };
    for folder in folders.split(|b| *b == b':') {
        let folder = if folder.is_empty() { &b"."[..] } else { folder };
        if !fits(folder.len() + 1 + name.len()) {
            continue;
        }
        path.fill(0);
        path[..folder.len()].copy_from_slice(folder);
        path[folder.len()] = b'/';
        path[folder.len() + 1..][..name.len()].copy_from_slice(name);
        let Ok(found) = CStr::from_bytes_until_nul(&path) else { return };
        if rustix::fs::access(found, rustix::fs::Access::EXEC_OK).is_ok() {
            return f(found);
        }
    }
}

/// Returns whether the kernel would start this file without a loader that preloads libraries.
fn needs_tracer(path: &CStr) -> bool {
    let Ok(file) =
        rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
    else {
        return false;
    };
    let mut head = [0u8; LONGEST_NAME];
    let len = rustix::io::pread(&file, &mut head, 0).unwrap_or(0);
    if let Some(line) = head[..len].strip_prefix(b"#!") {
        return interpreter(line).is_some_and(|path| open_is_bare(&path));
    }
    is_bare(file.as_fd(), &head[..len])
}

/// Returns the path of the interpreter in the first line of a script.
fn interpreter(line: &[u8]) -> Option<[u8; LONGEST_NAME]> {
    let line = line.split(|b| *b == b'\n').next()?;
    let word = line.split(|b| b.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    let mut path = [0u8; LONGEST_NAME];
    path.get_mut(..word.len())?.copy_from_slice(word);
    Some(path)
}

fn open_is_bare(path: &[u8; LONGEST_NAME]) -> bool {
    let Ok(path) = CStr::from_bytes_until_nul(path) else { return false };
    let Ok(file) = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return false;
    };
    let mut head = [0u8; 64];
    let len = rustix::io::pread(&file, &mut head, 0).unwrap_or(0);
    is_bare(file.as_fd(), &head[..len])
}

/// Returns whether a program names no loader, or the loader of the musl C library (`elf(5)`).
fn is_bare(file: BorrowedFd, head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<64>() else { return false };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    let (table, size, count) = (word(head, 32), word(head, 54) & 0xffff, word(head, 56) & 0xffff);
    for n in 0..count.min(MOST_SEGMENTS) {
        let mut segment = [0u8; 56];
        let at = table.wrapping_add(n * size);
        if rustix::io::pread(file, &mut segment, at) != Ok(segment.len()) {
            return false;
        }
        if word(&segment, 0) as u32 == INTERPRETER {
            let mut name = [0u8; LONGEST_NAME];
            let _ = rustix::io::pread(file, &mut name, word(&segment, 8));
            return name.windows(8).any(|part| part == b"/ld-musl");
        }
    }
    true
}

/// Reads eight bytes; bytes behind the end count as 0.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    let there = bytes.len().saturating_sub(at).min(8);
    word[..there].copy_from_slice(&bytes[at..at + there]);
    u64::from_le_bytes(word)
}
