//! Descriptors that a thread passes to the child that it forks. The child's pager needs them, and a process that has given up its rights,
//! its root directory or its number of descriptors could not open them itself.
//!
//! The pager keeps the descriptors in its own table of files, where the program can neither see nor close them. A thread that is about to
//! fork copies them into the program's table (`pidfd_getfd(2)`, Linux 6.9), and both sides of the fork close these copies at once. Only one
//! thread at a time does so. If the copying fails, the child's pager opens the files again; if that fails as well, the child has no pager.

use crate::attached;
use crate::control::ControlHead;
use crate::{gate, sys};
use core::ffi::CStr;
use core::sync::atomic::{
    AtomicI32, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The files: the device for userfaultfds; the folder `/proc`; the control file, as a separate open file.
const KINDS: usize = 3;
const PROC: usize = 1;

/// Descriptors in the pager's table of files; -1: none.
static KEPT: [AtomicI32; KINDS] = [const { AtomicI32::new(-1) }; KINDS];
/// Copies of the descriptors in the program's table of files while a thread forks; -1: none.
static CARRIED: [AtomicI32; KINDS] = [const { AtomicI32::new(-1) }; KINDS];
/// Descriptors for the pager that is about to start: those that the parent passed, and `pagemap`.
static GIVEN: [AtomicI32; KINDS + 1] = [const { AtomicI32::new(-1) }; KINDS + 1];
/// Number of the pager's thread; 0: no thread keeps descriptors.
static KEEPER: AtomicU32 = AtomicU32::new(0);
/// State of the fork that is under way in this process. One thread forks at a time, because there is one set of copies.
static CARRIES: AtomicU32 = AtomicU32::new(NONE);
/// No thread forks.
const NONE: u32 = 0;
/// A thread forks, with copies of the descriptors.
const WITH_COPIES: u32 = 1;
/// A thread forks without copies.
const WITHOUT_COPIES: u32 = 2;

/// Files through which a pager opens its other files; `None`: it opens them by their paths.
pub(crate) struct CarriedFiles {
    device: Option<OwnedFd>,
    proc: Option<OwnedFd>,
    control: Option<OwnedFd>,
    pagemap: Option<OwnedFd>,
}

impl CarriedFiles {
    /// Returns the descriptors that the calling thread inherited, which are the only ones that it must not close.
    pub(crate) fn numbers() -> [i32; KINDS + 1] {
        GIVEN.each_ref().map(|number| number.load(Relaxed))
    }

    /// Takes the descriptors that the parent passed to this pager, opens those that are missing, and keeps them for children of this
    /// process.
    ///
    /// # Safety
    /// Called once, by a pager's thread, which has a private table of files.
    pub(crate) unsafe fn take(control: &ControlHead) -> CarriedFiles {
        let given = CarriedFiles::numbers().map(|number| {
            // SAFETY: the caller guarantees that this happens once; the number is valid in the thread's copy of the program's table.
            (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
        });
        let [device, proc, locked, pagemap] = given;
        let kept = CarriedFiles {
            device: device.or_else(|| sys::open_device().ok()),
            proc: proc.or_else(|| open_proc().ok()),
            control: locked.or_else(|| attached::open_locked(control)),
            pagemap,
        };
        for (number, file) in KEPT.iter().zip([&kept.device, &kept.proc, &kept.control]) {
            number.store(file.as_ref().map_or(-1, |file| file.as_raw_fd()), Relaxed);
        }
        KEEPER.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
        kept
    }

    /// Returns the device for userfaultfds.
    pub(crate) fn device(&self) -> Option<&OwnedFd> {
        self.device.as_ref()
    }

    /// Opens a file of this process in `/proc`.
    pub(crate) fn open(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        open_own(self.proc.as_ref().map(AsFd::as_fd), name)
    }

    /// Opens `pagemap` of this process, unless the parent passed it.
    pub(crate) fn open_pagemap(&mut self) -> Result<OwnedFd, Errno> {
        match self.pagemap.take() {
            Some(file) => Ok(file),
            None => open_own_pagemap(self.proc.as_ref().map(AsFd::as_fd)),
        }
    }

    /// Makes the value from these descriptors, each of which may be missing.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of(device: Option<OwnedFd>, proc: Option<OwnedFd>) -> CarriedFiles {
        CarriedFiles { device, proc, control: None, pagemap: None }
    }

    /// Returns a copy of the control file's descriptor, which serves to check the lock on the file.
    pub(crate) fn control(&self) -> Option<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(self.control.as_ref()?, 0).ok()
    }
}

fn open_own(proc: Option<BorrowedFd>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match proc {
        Some(proc) => rustix::fs::openat(proc, name, flags, Mode::empty()),
        None => rustix::fs::openat(open_proc()?, name, flags, Mode::empty()),
    }
}

/// Opens the folder `/proc`.
pub(crate) fn open_proc() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc", flags, Mode::empty())
}

/// Copies the pager's descriptors into the calling thread's table of files, for the child that the thread is about to fork.
///
/// Without `may_copy`, nothing is copied, because a filter might end the thread for the system calls. [`put_down`] must follow in any case:
/// the filter may be installed, or be refused by the kernel, while the thread forks.
pub(crate) fn carry(may_copy: bool) {
    let state = if may_copy { WITH_COPIES } else { WITHOUT_COPIES };
    while CARRIES.compare_exchange(NONE, state, Acquire, Relaxed).is_err() {
        gate::give_way();
    }
    if !may_copy {
        return;
    }
    let keeper = KEEPER.load(Acquire);
    if keeper == 0 {
        return;
    }
    const OF_THREAD: usize = libc::O_EXCL as usize;
    // SAFETY: makes a descriptor.
    let handle = unsafe { sys::call(libc::SYS_pidfd_open, [keeper as usize, OF_THREAD, 0, 0, 0, 0]) };
    if handle < 0 {
        return;
    }
    for (kept, carried) in KEPT.iter().zip(&CARRIED) {
        let number = kept.load(Relaxed);
        if number >= 0 {
            let copy = [handle as usize, number as usize, 0, 0, 0, 0];
            // SAFETY: makes a descriptor.
            carried.store(unsafe { sys::call(libc::SYS_pidfd_getfd, copy) } as i32, Relaxed);
        }
    }
    close(handle as i32);
}

/// Closes the copies that [`carry`] made, and lets the next thread fork. Returns whether `carry` was allowed to copy. Must be called in the
/// thread that called `carry`.
pub(crate) fn put_down() -> bool {
    for carried in &CARRIED {
        let number = carried.swap(-1, Relaxed);
        if number >= 0 {
            close(number);
        }
    }
    CARRIES.swap(NONE, Release) == WITH_COPIES
}

/// Forgets the fork, in the child.
pub(crate) fn reset() {
    CARRIES.store(NONE, Release);
}

/// Passes the descriptors to the pager that is about to start in the child of a fork. The thread that forked must be the only one in the
/// child. [`put_down`] follows when the pager has started.
pub(crate) fn give() {
    for (given, carried) in GIVEN.iter().zip(&CARRIED) {
        given.store(carried.load(Relaxed), Relaxed);
    }
    KEEPER.store(0, Relaxed);
    let number = CARRIED[PROC].load(Relaxed);
    // SAFETY: copied here, and closed only by `put_down`.
    let proc = (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) });
    let pagemap = open_own_pagemap(proc).map_or(-1, IntoRawFd::into_raw_fd);
    GIVEN[KINDS].store(pagemap, Relaxed);
}

/// Closes the descriptor that only the pager needs; called when the pager has started with its own copy.
pub(crate) fn close_given() {
    let number = GIVEN[KINDS].load(Relaxed);
    if number >= 0 {
        close(number);
    }
}

/// Opens `pagemap` of this process. If a process has changed its user, its files in `/proc` belong to root until the kernel may show them
/// to that user. Therefore the function makes them visible for a moment, which does no harm.
fn open_own_pagemap(proc: Option<BorrowedFd>) -> Result<OwnedFd, Errno> {
    let open = || open_own(proc, c"self/pagemap");
    match open() {
        Err(Errno::ACCESS) => {
            const GET: usize = libc::PR_GET_DUMPABLE as usize;
            const SET: usize = libc::PR_SET_DUMPABLE as usize;
            // SAFETY: an attribute of this process.
            let set = |value| unsafe { sys::call(libc::SYS_prctl, [SET, value, 0, 0, 0, 0]) };
            // SAFETY: only reads that attribute.
            let before = unsafe { sys::call(libc::SYS_prctl, [GET, 0, 0, 0, 0, 0]) };
            set(1);
            let opened = open();
            // Only the kernel may set 2. The value 0 is stricter and therefore a safe replacement.
            if before != 1 {
                set(0);
            }
            opened
        }
        other => other,
    }
}

fn close(number: i32) {
    // SAFETY: ours, by `carry` or `give`.
    unsafe { sys::call(libc::SYS_close, [number as usize, 0, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(target: &std::path::Path) -> bool {
        target.to_string_lossy().contains("unrack-kept")
    }

    #[test]
    fn a_thread_carries_what_another_keeps_and_leaves_nothing() {
        // Other tests open files meanwhile.
        let files = || {
            let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            files.filter_map(|file| std::fs::read_link(file.path()).ok()).filter(|to| is_kept(to)).count()
        };
        carry(true);
        assert!(CARRIED.iter().all(|number| number.load(Relaxed) < 0), "nobody keeps anything");
        assert!(put_down());
        carry(false);
        assert!(!put_down(), "a filter that comes or goes meanwhile changes nothing");
        let file = rustix::fs::memfd_create("unrack-kept", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        KEPT[2].store(file.as_raw_fd(), Relaxed);
        KEEPER.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
        std::thread::spawn(move || {
            carry(true);
            let number = CARRIED[2].load(Relaxed);
            // An older kernel has no handles of threads.
            if number >= 0 {
                let target = std::fs::read_link(format!("/proc/thread-self/fd/{number}")).unwrap();
                assert!(is_kept(&target) && files() == 2, "{}", target.display());
            }
            assert!(CARRIED[0].load(Relaxed) < 0);
            assert!(put_down());
        })
        .join()
        .unwrap();
        assert_eq!(files(), 1, "what was kept");
        drop(file);
        KEEPER.store(0, Relaxed);
    }
}
