//! The control file that this process is attached to, and the files in the same folder.

use crate::control::{ControlHead, MAGIC};
use crate::spool::Spool;
use alloc::boxed::Box;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

static CONTROL: AtomicPtr<ControlHead> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes of the mapping of the control file.
static LEN: AtomicUsize = AtomicUsize::new(0);
/// Path of the control file, with a trailing NUL; spool files are in the same folder. The path is leaked, because it must outlive every
/// fork.
static PATH: AtomicPtr<[u8; LONGEST_PATH]> = AtomicPtr::new(core::ptr::null_mut());
const LONGEST_PATH: usize = 512;
const SPOOL_NAME: &[u8] = b"spool-00000000";
/// Name of the socket at which processes ask to be traced. It is in the folder of the control file.
pub const DOOR_NAME: &str = "door";

/// Returns the control segment of this process if the process runs under `unrack run`.
pub fn control() -> Option<&'static ControlHead> {
    // SAFETY: set once by `attach_to` to a mapping that is removed only when the pager ends.
    unsafe { CONTROL.load(Relaxed).as_ref() }
}

/// Maps the control file. The spool files of this process will be in the same folder.
///
/// # Errors
/// `EINVAL` if the file is not a control file, or lacks the samples that its head announces; otherwise the kernel's error if the file
/// cannot be opened or mapped.
pub fn attach(path: &CStr) -> Result<&'static ControlHead, Errno> {
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let control = attach_to(file.as_fd())?;
    remember_path(path);
    Ok(control)
}

/// Maps a control file that is already open. This process then has no spool files, because the path is unknown.
///
/// # Errors
/// The same as for [`attach`].
pub fn attach_to(file: BorrowedFd) -> Result<&'static ControlHead, Errno> {
    let len = rustix::fs::fstat(file)?.st_size as usize;
    if len < size_of::<ControlHead>() {
        return Err(Errno::INVAL);
    }
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping with the length of the file, which `unrack` does not shrink.
    let at = unsafe {
        rustix::mm::mmap(core::ptr::null_mut(), len, protection, rustix::mm::MapFlags::SHARED, file, 0)?
    };
    let control = at as *mut ControlHead;
    // SAFETY: the mapping is page-aligned and long enough, and every bit pattern is valid for atomics.
    let checked = unsafe { &*control };
    if checked.magic.load(Relaxed) != MAGIC {
        return Err(Errno::INVAL);
    }
    let samples = checked.settings.samples.load(Relaxed) as usize;
    if samples.checked_mul(8).is_none_or(|bytes| bytes > len - size_of::<ControlHead>()) {
        return Err(Errno::INVAL);
    }
    CONTROL.store(control, Relaxed);
    LEN.store(len, Relaxed);
    Ok(checked)
}

/// Excludes the mapping of the control file from the address spaces of children of this process.
pub(crate) fn keep_from_children() {
    let at = CONTROL.load(Relaxed).cast();
    // SAFETY: our own mapping, whose contents stay as they are.
    let _ = unsafe { rustix::mm::madvise(at, LEN.load(Relaxed), rustix::mm::Advice::LinuxDontFork) };
}

/// Unmaps the control file.
///
/// # Safety
/// No code of this process uses the control file any more.
pub(crate) unsafe fn detach() {
    let at = CONTROL.swap(core::ptr::null_mut(), Relaxed);
    if !at.is_null() {
        // SAFETY: the caller guarantees that the file is no longer used; mapped by `attach_to`.
        let _ = unsafe { rustix::mm::munmap(at.cast(), LEN.load(Relaxed)) };
    }
}

fn remember_path(path: &CStr) {
    let path = path.to_bytes();
    let mut kept = [0u8; LONGEST_PATH];
    let len = path.len().min(kept.len() - SPOOL_NAME.len() - 1);
    kept[..len].copy_from_slice(&path[..len]);
    keep_path(kept);
}

fn keep_path(path: [u8; LONGEST_PATH]) {
    PATH.store(Box::into_raw(Box::new(path)), Relaxed);
}

/// Preserves the path while `reset` empties the heap in which the path is stored.
pub(crate) fn keep_path_over(reset: impl FnOnce()) {
    let kept = control_path();
    reset();
    if let Some(path) = kept {
        keep_path(path);
    }
}

fn control_path() -> Option<[u8; LONGEST_PATH]> {
    // SAFETY: leaked by `keep_path`.
    unsafe { PATH.load(Relaxed).as_ref() }.copied()
}

/// Returns the path of the door's socket, padded with zeros.
pub fn door_path() -> Option<[u8; LONGEST_PATH]> {
    beside(DOOR_NAME.as_bytes()).map(|(path, _)| path)
}

/// Returns the path of a file in the folder of the control file, and the position where its name begins.
fn beside(name: &[u8]) -> Option<([u8; LONGEST_PATH], usize)> {
    let mut path = control_path()?;
    let folder = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    path[folder..].fill(0);
    path[folder..][..name.len()].copy_from_slice(name);
    Some((path, folder))
}

fn spool_path(process: u32) -> Option<[u8; LONGEST_PATH]> {
    let (mut path, at) = beside(SPOOL_NAME)?;
    let name = &mut path[at..][..SPOOL_NAME.len()];
    for (power, digit) in name.iter_mut().rev().take(8).enumerate() {
        *digit = b'0' + (process / 10u32.pow(power as u32) % 10) as u8;
    }
    Some(path)
}

/// Opens the control file so that its lock can be checked. Returns `None` if there is no lock, or if the file cannot be opened, for example
/// by a process that changed its root or its user.
pub(crate) fn open_locked(control: &ControlHead) -> Option<OwnedFd> {
    if control.settings.is_locked.load(Relaxed) == 0 {
        return None;
    }
    let path = control_path()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Opens the capture file of a process; returns `None` if transfers are not captured.
pub(crate) fn open_spool(control: &ControlHead, process: u32) -> Result<Option<Spool>, Errno> {
    if control.settings.capture.load(Relaxed) == 0 {
        return Ok(None);
    }
    let path = spool_path(process).ok_or(Errno::INVAL)?;
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    Spool::create(path).map(Some)
}

/// Returns the delay samples behind the head of the control file.
pub(crate) fn samples(control: &'static ControlHead) -> &'static [AtomicU64] {
    let len = control.settings.samples.load(Relaxed) as usize;
    // SAFETY: `attach` checked that the file holds the samples, directly behind the head.
    unsafe { core::slice::from_raw_parts((control as *const ControlHead).add(1).cast(), len) }
}
