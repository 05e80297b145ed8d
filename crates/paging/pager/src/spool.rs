//! Capture: every remote transfer becomes a record in a file, at the cost of a few stores.
//!
//! The file is mapped shared and written in place, so that the records survive however the process ends. `unrack` reads the files of all
//! processes after the run; an all-zero record marks the end of a file.

use core::ffi::CStr;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Record of one transfer. `kind` is never 0 in a written record.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpooledTransfer {
    /// Time since the run's start, in ns.
    pub t_ns: u64,
    /// Address of the page divided by the page size.
    pub page: u64,
    pub wait_ns: u64,
    pub overhead_ns: u64,
    pub thread: u32,
    pub kind: u32,
}

const _: () = assert!(size_of::<SpooledTransfer>() == 40, "`unrack` reads records of this size");

/// Kind of a transfer from remote memory.
pub const FETCH: u32 = 1;
/// Kind of a transfer to remote memory.
pub const WRITE_BACK: u32 = 2;

const WINDOW_RECORDS: usize = 1 << 16;
const WINDOW_BYTES: usize = WINDOW_RECORDS * size_of::<SpooledTransfer>();

/// Capture file of one process.
pub struct Spool {
    file: OwnedFd,
    window: *mut SpooledTransfer,
    used: usize,
    windows: usize,
}

// SAFETY: the window is a mapping that only this value uses, whichever thread owns the value.
unsafe impl Send for Spool {}

impl Spool {
    /// Creates the capture file, or empties an existing one.
    ///
    /// # Errors
    /// The kernel's error if the file cannot be created or emptied.
    pub fn create(path: &CStr) -> Result<Spool, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
        Ok(Spool { file, window: core::ptr::null_mut(), used: WINDOW_RECORDS, windows: 0 })
    }

    /// Replaces the descriptor of the capture file with one that `f` makes from it.
    ///
    /// # Errors
    /// The error of `f`; the file is then closed, unless `f` kept it.
    pub fn with_descriptor(self, f: impl FnOnce(OwnedFd) -> Result<OwnedFd, Errno>) -> Result<Spool, Errno> {
        Ok(Spool { file: f(self.file)?, ..self })
    }

    /// Appends a record to the capture file.
    ///
    /// # Errors
    /// The kernel's error if the file cannot grow (`ENOSPC`). Room on disk is allocated before the records are written, so that a write to
    /// the mapping cannot fail.
    pub fn push(&mut self, transfer: SpooledTransfer) -> Result<(), Errno> {
        if self.used == WINDOW_RECORDS {
            self.next_window()?;
        }
        // SAFETY: `window` has WINDOW_RECORDS records, and `used` of them are written.
        unsafe { self.window.add(self.used).write(transfer) };
        self.used += 1;
        Ok(())
    }

    fn next_window(&mut self) -> Result<(), Errno> {
        let offset = (self.windows * WINDOW_BYTES) as u64;
        rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), offset, WINDOW_BYTES as u64)?;
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping of this file; the old window is not used again.
        unsafe {
            let new = rustix::mm::mmap(
                core::ptr::null_mut(),
                WINDOW_BYTES,
                read_write,
                shared,
                &self.file,
                offset,
            )?;
            if !self.window.is_null() {
                rustix::mm::munmap(self.window.cast(), WINDOW_BYTES)?;
            }
            self.window = new.cast();
        }
        self.used = 0;
        self.windows += 1;
        Ok(())
    }
}
