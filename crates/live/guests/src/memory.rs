//! Files in memory, which QEMU opens by descriptor. They have no names, so none of them can be left behind.

use crate::header::{BLOCK_OFFSET, block};
use crate::scenario::{DeviceKind, SharedDevice};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use unrack_live::Error;

/// Creates a file in memory with this content.
///
/// # Errors
/// [`Error::Broken`] if the machine has no memory for it.
pub(crate) fn file(name: &str, contents: &[u8]) -> Result<File, Error> {
    let made = memfd_create(name, MemfdFlags::CLOEXEC).map_err(std::io::Error::from).map(File::from);
    let written = made.and_then(|file| file.write_all_at(contents, 0).map(|()| file));
    written.map_err(|why| Error::Broken(format!("a file in memory cannot be made for {name}: {why}")))
}

/// Creates the memory of a device. It is filled with zeros, after the header that an NVDIMM needs.
///
/// # Errors
/// [`Error::Broken`] if the machine has no memory for it.
pub(crate) fn device(device: &SharedDevice) -> Result<File, Error> {
    let made = file("unrack-device", &[])?;
    let failed = |why| Error::Broken(format!("the device's memory cannot be made: {why}"));
    made.set_len(device.file_bytes()).map_err(failed)?;
    if device.kind == DeviceKind::Nvdimm {
        made.write_all_at(&block(device.bytes.get()), BLOCK_OFFSET).map_err(failed)?;
    }
    Ok(made)
}

/// Returns the path by which a process that inherits the file can open it.
pub(crate) fn path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Lets a command inherit descriptors, which must be open when the command is started. The command is killed when the thread that starts it
/// ends.
pub(crate) fn inherit(command: &mut Command, descriptors: &[BorrowedFd]) {
    let descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let parent = rustix::process::getpid();
    let prepare = move || {
        for descriptor in &descriptors {
            // SAFETY: the caller keeps the descriptor open until the command has started; this process has a copy of it.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*descriptor) };
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before this setting took effect.
        match getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec, the closure makes only system calls and does not allocate.
    unsafe { command.pre_exec(prepare) };
}
