//! Files that `unrack` hands to the pager of a process whose memory it borrows.
//!
//! Such a process may belong to another user, see another file system, or be barred from its own files in `/proc`. Therefore `unrack` opens
//! all files and sends them through a socket. They are in the program's table of open files only while all threads of the program are
//! stopped; afterwards only the pager's thread has them, in its own table.

use crate::sys::{self, Uffd};
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Number of files in the message: the control file, as an open file with its own lock, and `maps`, `statm` and `pagemap` of the process.
pub const FILES: usize = 4;

/// Descriptors of these files and, at the end, of the userfaultfd; -1: none.
static NUMBERS: [AtomicI32; FILES + 1] = [const { AtomicI32::new(-1) }; FILES + 1];

/// The files that `unrack` handed over, and a userfaultfd of this process.
pub(crate) struct Handed {
    pub control: OwnedFd,
    pub uffd: Uffd,
    pub maps: OwnedFd,
    pub statm: OwnedFd,
    pub pagemap: OwnedFd,
}

/// Receives the files at this socket and makes a userfaultfd. Returns the descriptor of the userfaultfd, so that `unrack` can negotiate its
/// features, which this process may not be permitted to do. If the message has a fifth file, it is the device for userfaultfds.
///
/// # Errors
/// `EMFILE` if this process cannot open more files; otherwise the kernel's error if it provides no userfaultfd.
///
/// # Safety
/// `socket` is a descriptor.
pub unsafe fn receive(socket: c_int) -> Result<c_int, Errno> {
    // SAFETY: the caller guarantees that it is a descriptor.
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

/// Returns the control file that `unrack` handed over.
///
/// # Safety
/// Called after [`receive`] succeeded and before [`close`].
pub(crate) unsafe fn control() -> BorrowedFd<'static> {
    // SAFETY: the caller guarantees that the descriptor is open.
    unsafe { BorrowedFd::borrow_raw(NUMBERS[0].load(Relaxed)) }
}

/// Returns the descriptors of the files and of the userfaultfd; -1 for each that does not exist.
pub(crate) fn numbers() -> [c_int; FILES + 1] {
    NUMBERS.each_ref().map(|number| number.load(Relaxed))
}

/// Takes ownership of the files, in the thread that keeps them.
///
/// # Safety
/// Called once, after [`receive`] succeeded, in a thread that has a private table of open files.
pub(crate) unsafe fn take() -> Handed {
    // SAFETY: the caller guarantees that the descriptors are in this thread's table and are taken once.
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
