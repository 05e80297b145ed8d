//! Pages that are copied out of the program and into it, for kernels without `UFFDIO_MOVE` (before Linux 6.8).
//!
//! *Into the program*: `UFFDIO_COPY` fills a missing page with a copy of its slot, and then the slot is emptied. The kernel refuses this
//! call like a move if the page is present, or if the address space is changing.
//!
//! *Out of the program*: no single call copies a page and removes it, and a store between the two would be lost. Therefore the page is
//! first *set aside*: `mremap` with `MREMAP_DONTUNMAP` moves the page's entry atomically to the [`stage`](reserved_region::stage), and
//! leaves its mapping registered and the page missing. A store either comes before that move, and is part of the contents, or it faults and
//! waits for the pager. Then the pager copies the page from the stage to its slot at leisure, and empties the stage. The stage is one small
//! range, because a page that stayed where `mremap` put it would be a separate mapping, and the number of mappings is limited.
//!
//! Unlike a move, `mremap` does not refuse memory that is no longer registered, or pages of another mapping that has taken the place of the
//! program's. The following steps replace that check:
//! - the helper calls `mremap` directly after it has found that the address space is not changing;
//! - the kernel reports the `mremap` if, and only if, the memory was registered. Pages of unregistered memory, which were mapped and
//!   touched in the microseconds between the two calls, are put back at once. If the program has missed them meanwhile, it is ended;
//! - messages that the pager reads during the `mremap` are kept until it applies them, and no other page is touched before.
//!
//! `mremap` moves three kinds of pages that `UFFDIO_MOVE` refuses. Pages that a fork left shared are recognized in `pagemap`, and pages
//! that the program has locked are recognized because `madvise` refuses them. Pages into which the kernel is transferring data past the
//! page tables cannot be recognized: `unrack` prevents such transfers (`O_DIRECT`, `io_uring`).
//!
//! # References
//! `mremap(2)`, `ioctl_userfaultfd(2)`; `mm/mremap.c` and `fs/userfaultfd.c` (Linux 5.15, 6.1 and 6.18).

use crate::attached;
use crate::gate;
use crate::helper::{self, HelperCall};
use crate::moves::Moved;
use crate::pagemap::{self, PageEntries, PageEntry};
use crate::reserved_region;
use crate::sys::{self, Event, PAGE, Uffd};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ffi::c_void;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

const MISSED: &str = "the program mapped memory, and used it, in the place of pages that were just being evicted. On this kernel, the pager \
     cannot exclude that: run the program again, or use Linux 6.8 or later";
const UNREADABLE: &str = "the userfaultfd cannot be used any more";

/// Time in ns after which the pager checks whether the helper is done although no message came.
const PAUSE_NS: u64 = 100_000;

/// Pager's part of the copies: messages that it read while pages were being set aside.
pub(crate) struct PageCopies {
    inbox: RefCell<Vec<Event>>,
}

impl PageCopies {
    /// Prepares copies for the process of this userfaultfd. The descriptor must stay open.
    pub(crate) fn new(uffd: &Uffd) -> PageCopies {
        helper::set_userfaultfd(uffd.fd().as_raw_fd());
        PageCopies { inbox: RefCell::new(Vec::new()) }
    }

    /// Moves the messages that were read already to `events`.
    pub(crate) fn drain(&self, events: &mut Vec<Event>) {
        events.append(&mut self.inbox.borrow_mut());
    }

    /// Returns whether a message was read that [`PageCopies::drain`] has not returned yet.
    pub(crate) fn has_messages(&self) -> bool {
        !self.inbox.borrow().is_empty()
    }

    /// Returns whether a change of the address space was read but not applied, so that the caller's view of the memory is outdated.
    pub(crate) fn has_changes(&self) -> bool {
        self.inbox.borrow().iter().any(|event| !matches!(event, Event::Fault { .. }))
    }

    /// Copies the program's pages at `address` into empty slots, and empties their place; see [`crate::moves::take`].
    pub(crate) fn take(
        &self,
        uffd: &Uffd,
        pagemap: BorrowedFd,
        den: usize,
        address: usize,
        len: usize,
    ) -> Moved {
        // While the helper copies shared pages, it may wait for the pager, which would wait for the helper.
        if self.has_changes() || uffd.is_changing() || helper::is_unsharing() {
            return (0, Err(Errno::AGAIN));
        }
        let len = len.min(reserved_region::STAGE_BYTES);
        let (pages, refusal) = pagemap::takeable(pagemap, address, len / PAGE);
        let part = pages * PAGE;
        if pages == 0 || is_locked(address, part) {
            return (0, if pages == 0 { refusal } else { Err(Errno::INVAL) });
        }
        match self.set_aside(uffd, address, part) {
            Ok(true) => {
                self.store(uffd, den, address, part);
                (part, refusal)
            }
            Ok(false) => {
                self.put_foreign_back(uffd, pagemap, address, part);
                (0, Err(Errno::AGAIN))
            }
            Err(_) if self.has_changes() || uffd.is_changing() => (0, Err(Errno::AGAIN)),
            // Neighbouring pages are in two mappings.
            Err(Errno::FAULT) if pages > 1 => (0, Err(Errno::INVAL)),
            Err(Errno::NOMEM) => (0, Err(Errno::IO)),
            Err(why) => (0, Err(why)),
        }
    }

    /// Has the helper set pages aside, and reads the messages that come meanwhile. Returns whether the memory was registered.
    fn set_aside(&self, uffd: &Uffd, at: usize, len: usize) -> Result<bool, Errno> {
        let order = helper::post(HelperCall::SetAside { at, len }).ok_or(Errno::AGAIN)?;
        let mut is_reported = false;
        while !helper::is_done(order) {
            is_reported |= self.read(uffd);
            if is_reported {
                helper::wait(order);
                break;
            }
            let mut message = [PollFd::from_borrowed_fd(uffd.fd(), PollFlags::IN)];
            // An error means a signal or no message; both are checked above.
            let _ = rustix::event::poll(&mut message, Some(&sys::timespec(PAUSE_NS)));
        }
        helper::outcome().map(|()| is_reported)
    }

    /// Reads messages into the inbox. Returns whether one of them reports that pages were set aside; that message is dropped.
    fn read(&self, uffd: &Uffd) -> bool {
        let mut inbox = self.inbox.borrow_mut();
        let before = inbox.len();
        if uffd.read(&mut inbox).is_err() {
            die(UNREADABLE);
        }
        let read = inbox.len();
        let is_own =
            |event: &Event| matches!(event, Event::Remap { to, .. } if reserved_region::contains(*to));
        inbox.retain(|event| !is_own(event));
        read > before && inbox.len() < read
    }

    /// Copies pages from the stage to their slots, and empties the stage.
    fn store(&self, uffd: &Uffd, den: usize, address: usize, len: usize) {
        let Some(stage) = reserved_region::stage() else { die(UNREADABLE) };
        // The stage has inherited the registration. Without it, the kernel reports nothing about the stage, and nobody waits for a message.
        if uffd.unregister(stage, len).is_err() {
            die(UNREADABLE);
        }
        // The pages may be those of a mapping that the program has moved here in this very moment.
        let covers = |event: &Event| matches!(event, Event::Remap { to, len: moved, .. } if *to < address + len && address < to + moved);
        if self.inbox.borrow().iter().any(covers) {
            die(MISSED);
        }
        copy(den, stage, len);
        // SAFETY: the contents of the stage were copied.
        unsafe { reserved_region::forget(stage, len) };
    }

    /// Puts pages of unregistered memory back into the place from which they were taken by mistake. If the program has touched a page
    /// meanwhile, its contents were wrong for the program, and it is ended.
    fn put_foreign_back(&self, uffd: &Uffd, pagemap: BorrowedFd, address: usize, len: usize) {
        let Some(stage) = reserved_region::stage() else { die(UNREADABLE) };
        let entries = PageEntries::read(pagemap, stage, len / PAGE);
        if !entries.iter().any(PageEntry::is_filled) {
            return;
        }
        make_readable(stage, len);
        // Registration makes the program wait for the pages that are still missing.
        if uffd.register(address, len).is_err() {
            die(MISSED);
        }
        for n in entries.iter().enumerate().filter(|(_, entry)| entry.is_filled()).map(|(n, _)| n * PAGE) {
            while let (_, Err(why)) = uffd.copy(address + n, stage + n, PAGE) {
                if why != Errno::AGAIN {
                    die(MISSED);
                }
                self.read(uffd);
                rustix::thread::sched_yield();
            }
        }
        // SAFETY: the contents of the stage were copied.
        unsafe { reserved_region::forget(stage, len) };
    }

    /// Copies pages of the reserved region into the program, wakes the threads that wait for them, and empties the place where they were.
    pub(crate) fn give(
        &self,
        uffd: &Uffd,
        pagemap: BorrowedFd,
        address: usize,
        den: usize,
        len: usize,
    ) -> Moved {
        if self.has_changes() {
            return (0, Err(Errno::AGAIN));
        }
        // An empty slot would read as zeros.
        let entries = PageEntries::read(pagemap, den, len / PAGE);
        let filled = entries.iter().take_while(|entry| entry.is_filled()).count() * PAGE;
        if filled == 0 {
            return (0, Err(Errno::NOENT));
        }
        let (done, result) = uffd.copy(address, den, filled);
        // SAFETY: these pages were copied.
        unsafe { reserved_region::forget(den, done) };
        (done, if result.is_ok() && filled < len { Err(Errno::NOENT) } else { result })
    }
}

/// Moves pages within the reserved region, where no memory is registered.
pub(crate) fn shift(to: usize, from: usize, len: usize) {
    copy(to, from, len);
    // SAFETY: the pager owns both ranges, and the contents were copied.
    unsafe { reserved_region::forget(from, len) };
}

/// Fills pages of the reserved region with zeros.
pub(crate) fn clear(at: usize, len: usize) {
    // SAFETY: the pager owns these pages, which are mapped, writable and not in use.
    unsafe { core::ptr::write_bytes(at as *mut u8, 0, len) };
}

/// Returns whether this kernel can set pages aside.
pub fn are_possible() -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new mappings at addresses of the kernel's choice, which nothing else uses; they are unmapped together.
    unsafe {
        let Ok(at) = mmap_anonymous(core::ptr::null_mut(), 2 * PAGE, rights, MapFlags::PRIVATE) else {
            return false;
        };
        let is_possible = sys::set_aside(at.addr(), PAGE, at.addr() + PAGE).is_ok();
        let _ = munmap(at, 2 * PAGE);
        is_possible
    }
}

/// Copies pages of the reserved region to another place in it.
fn copy(to: usize, from: usize, len: usize) {
    // SAFETY: the pager owns both ranges, and uses neither otherwise.
    if unsafe { sys::copy_own(to, from, len) } {
        return;
    }
    // The program had withdrawn its right to read these pages, or this process may not make that call.
    make_readable(from, len);
    // SAFETY: the pager owns both ranges, and uses neither otherwise; the source is readable now.
    if !unsafe { sys::copy_own(to, from, len) } {
        // SAFETY: the pager owns both ranges, which do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
    }
}

fn make_readable(at: usize, len: usize) {
    // SAFETY: the pager owns these pages. If the call fails, so does the copy that follows.
    let _ =
        unsafe { rustix::mm::mprotect(at as *mut c_void, len, MprotectFlags::READ | MprotectFlags::WRITE) };
}

/// Returns whether the program has locked a page of this range. The advice itself only makes the kernel expect no use of the pages.
fn is_locked(at: usize, len: usize) -> bool {
    // SAFETY: the advice changes no contents.
    unsafe { rustix::mm::madvise(at as *mut c_void, len, Advice::LinuxCold) == Err(Errno::INVAL) }
}

fn die(reason: &str) -> ! {
    match attached::control() {
        Some(control) => gate::die(control, reason),
        None => sys::exit(1),
    }
}
