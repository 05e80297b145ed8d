//! Finds out whether a program that is about to start will have this library.
//!
//! Only a program with this library can receive from the rings that it inherits. A wrong "no" costs at most a relay, whereas a wrong "yes"
//! loses bytes. Therefore a program that is unknown or cannot be read counts as one without the library. This code may run in the child of
//! a `vfork`. Therefore it parses ELF headers itself instead of using a library, which could allocate memory or end the process.

use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use unrack_socket::kernel;

/// Part of the library's path. An environment whose `LD_PRELOAD` contains it preloads the library.
const NAME: &[u8] = b"libunrack_sockets";
/// Number of bytes at the beginning of a program's file that are read.
const HEAD: usize = 4096;
/// Maximum number of scripts in a chain in which each is the interpreter of the next (the kernel's `BINPRM_MAX_RECURSION` is 4).
const DEPTH: u32 = 4;
/// Type of the program header that names the loader (`PT_INTERP`).
const INTERPRETER: u32 = 3;

/// Returns whether a program will have the library: its environment preloads the library, and its loader respects that.
///
/// # Safety
/// `path` is null or a string; `environment` is null or a list of strings that ends with a null pointer.
pub(crate) unsafe fn has_library(path: *const c_char, environment: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    !path.is_null() && unsafe { preloads(environment) && heeds(CStr::from_ptr(path), DEPTH) }
}

/// Returns whether an environment preloads this library.
///
/// # Safety
/// As [`has_library`].
unsafe fn preloads(environment: *const *const c_char) -> bool {
    let mut next = environment;
    // SAFETY: the caller's list.
    while !next.is_null() && unsafe { !(*next).is_null() } {
        // SAFETY: the caller's list.
        let variable = unsafe { CStr::from_ptr(*next) }.to_bytes();
        if variable.starts_with(b"LD_PRELOAD=") && variable.windows(NAME.len()).any(|part| part == NAME) {
            return true;
        }
        // SAFETY: the caller's list.
        next = unsafe { next.add(1) };
    }
    false
}

/// Returns whether a program is loaded by this C library's loader and runs with its caller's rights only.
fn heeds(path: &CStr, depth: u32) -> bool {
    let mut head = [0; HEAD];
    let Some(bytes) = kernel::read_file(path, &mut head) else { return false };
    let head = &head[..bytes];
    if let Some(line) = head.strip_prefix(b"#!") {
        return depth > 0 && interpreter(line).is_some_and(|interpreter| heeds(&interpreter, depth - 1));
    }
    !gains_rights(path) && is_dynamic(head)
}

/// Returns the interpreter of a script.
fn interpreter(line: &[u8]) -> Option<CString> {
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    CString::new(name).ok()
}

/// Returns whether a program gains rights that its caller lacks, in which case the loader does not preload this library.
fn gains_rights(path: &CStr) -> bool {
    // SAFETY: all zeros are a valid `stat`.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: a path that ends in zero, and a local structure.
    let known = unsafe { libc::stat(path.as_ptr(), &raw mut stat) };
    let is_set = stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0;
    let name = c"security.capability".as_ptr();
    // SAFETY: strings that end in zero, and no room.
    let capabilities =
        unsafe { libc::syscall(libc::SYS_getxattr, path.as_ptr(), name, std::ptr::null_mut::<u8>(), 0) };
    known != 0 || is_set || capabilities > 0
}

/// Returns whether the head of a file belongs to a program for this architecture that names this C library's loader.
fn is_dynamic(head: &[u8]) -> bool {
    let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    // An ELF file of 64 bits, little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") || half(head, 18) != Some(machine) {
        return false;
    }
    let (Some(first), Some(size), Some(count)) = (wide(head, 32), half(head, 54), half(head, 56)) else {
        return false;
    };
    (0..usize::from(count)).any(|i| {
        let at = (first as usize).saturating_add(i * usize::from(size));
        let Some(INTERPRETER) = word(head, at) else { return false };
        let (Some(offset), Some(length)) = (wide(head, at + 8), wide(head, at + 32)) else { return false };
        let (begin, end) = (offset as usize, (offset as usize).saturating_add(length as usize));
        let name = head.get(begin..end).unwrap_or_default();
        name.windows(8).any(|part| part == b"ld-linux")
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn wide(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Returns the path of the program that `execvp(3)` finds in `PATH`; `None` if it finds none.
///
/// # Safety
/// `file` is null or a string.
pub(crate) unsafe fn find(file: *const c_char) -> Option<CString> {
    if file.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(file) };
    if name.to_bytes().contains(&b'/') {
        return Some(name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    path.as_bytes().split(|byte| *byte == b':').find_map(|folder| {
        let folder = if folder.is_empty() { b"." } else { folder };
        let whole = CString::new([folder, b"/", name.to_bytes()].concat()).ok()?;
        // SAFETY: a path that ends in zero.
        (unsafe { libc::access(whole.as_ptr(), libc::X_OK) } as c_int == 0).then_some(whole)
    })
}
