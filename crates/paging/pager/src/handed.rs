//! Files that `unrack` hands to the pager of a process whose memory it borrows.
//!
//! Such a process may be another user's, see another file system, or be barred from its own files in `/proc`. So `unrack`
//! opens them all and sends them through a socket. They are in the program's table of open files only while all its
//! threads are stopped; the pager's thread takes them along.

use crate::sys::{self, Uffd};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Number of files in the message: the control file, with a lock of its own; `maps`, `statm` and `pagemap` of the process.
pub const FILES: usize = 4;

/// Descriptors of these files, and last of the userfaultfd; -1: none.
static NUMBERS: [AtomicI32; FILES + 1] = [const { AtomicI32::new(-1) }; FILES + 1];

/// The files, and a userfaultfd of this process.
pub(crate) struct Handed {
    pub control: OwnedFd,
    pub uffd: Uffd,
    pub maps: OwnedFd,
    pub statm: OwnedFd,
    pub pagemap: OwnedFd,
}

/// Receives the files at this socket, and makes a userfaultfd. Returns its descriptor: `unrack` asks for its features,
/// since this process may not be permitted to. A fifth file in the message is the device for userfaultfds.
///
/// # Errors
/// `EMFILE` if this process can open no more files, else the kernel's reason to give no userfaultfd.
///
/// # Safety
/// `socket` is a descriptor.
pub unsafe fn receive(socket: c_int) -> Result<c_int, Errno> {
    // SAFETY: as the caller says.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES + 1))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0u8];
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut extra, RecvFlags::CMSG_CLOEXEC)?;
    let rights = extra.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let mut files = rights.ok_or(Errno::MFILE)?;
    for (number, file) in NUMBERS[..FILES].iter().zip(&mut files) {
        number.store(file.into_raw_fd(), Relaxed);
    }
    if NUMBERS[FILES - 1].load(Relaxed) < 0 {
        return Err(Errno::MFILE);
    }
    let uffd = match (Uffd::create(), files.next()) {
        (Err(Errno::PERM), Some(device)) => sys::create_through(&device)?,
        (created, _) => created?,
    };
    let number = uffd.into_descriptor().into_raw_fd();
    NUMBERS[FILES].store(number, Relaxed);
    Ok(number)
}

/// Returns the control file.
///
/// # Safety
/// Called after [`receive`] succeeded, before [`close`].
pub(crate) unsafe fn control() -> BorrowedFd<'static> {
    // SAFETY: as the caller says.
    unsafe { BorrowedFd::borrow_raw(NUMBERS[0].load(Relaxed)) }
}

/// Returns the descriptors, if there are any.
pub(crate) fn numbers() -> [c_int; FILES + 1] {
    NUMBERS.each_ref().map(|number| number.load(Relaxed))
}

/// Takes the files, in the thread that keeps them.
///
/// # Safety
/// Called once, in a thread with a table of open files of its own, made after [`receive`] succeeded.
pub(crate) unsafe fn take() -> Handed {
    // SAFETY: as the caller says.
    let [control, maps, statm, pagemap, uffd] =
        numbers().map(|number| unsafe { OwnedFd::from_raw_fd(number) });
    Handed { control, uffd: uffd.into(), maps, statm, pagemap }
}

/// Closes the files in the calling thread's table.
pub fn close() {
    for number in numbers().into_iter().filter(|number| *number >= 0) {
        // SAFETY: ours, by `receive`.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}
