//! Check that a handle is used in the process that made it.
//!
//! A child made by `fork` has a copy of its parent's memory, and shares the parent's sockets and mappings, but has none
//! of its threads. If the child used a connection of its parent, parent and child would receive each other's replies,
//! and locks that another thread held at the fork would never be released. Therefore a handle belongs to the process
//! that made it. Any other process is refused its use, and dropping it there has no effect outside that process.
//!
//! The check must cost almost nothing, because every call makes it. Therefore it uses no system call: the process keeps
//! a mark in a page that the kernel empties at each fork (`MADV_WIPEONFORK`).

use crate::client::Error;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mark of the process that made a handle.
#[derive(Debug, Clone, Copy)]
pub struct Maker {
    word: &'static AtomicU64,
    mark: u64,
    /// Process number, if the kernel cannot empty pages at a fork; otherwise zero.
    pid: i32,
}

/// Page that the kernel empties at a fork.
struct Page {
    word: &'static AtomicU64,
    is_emptied: bool,
}

impl Maker {
    /// Returns the mark of this process.
    pub fn this_process() -> Maker {
        let page = page();
        let pid = if page.is_emptied { 0 } else { number() };
        Maker { word: page.word, mark: mark(page.word), pid }
    }

    /// Returns whether this is the process that made the handle.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.mark && (self.pid == 0 || self.pid == number())
    }

    /// Checks that this is the process that made the handle.
    ///
    /// # Errors
    /// [`Error::Forked`] if this process is a child of that process.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}

/// Returns the mark of this process, which differs from the marks of its parent and all earlier ancestors.
fn mark(word: &AtomicU64) -> u64 {
    /// Last mark that was assigned. A child continues with its parent's number.
    static LAST: AtomicU64 = AtomicU64::new(0);
    match word.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(of_another_thread) => of_another_thread,
            }
        }
        mark => mark,
    }
}

fn number() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn page() -> &'static Page {
    static PAGE: OnceLock<Page> = OnceLock::new();
    PAGE.get_or_init(|| {
        let bytes = crate::PAGE as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel picks the address, so the new mapping replaces no other mapping.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        match mapped {
            Ok(at) => {
                // SAFETY: the page has no contents yet.
                let emptied = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxWipeOnFork) };
                // SAFETY: zeros are a valid atomic, the address is aligned, and the page is never unmapped.
                Page { word: unsafe { &*at.cast::<AtomicU64>() }, is_emptied: emptied.is_ok() }
            }
            Err(_) => {
                static WORD: AtomicU64 = AtomicU64::new(0);
                Page { word: &WORD, is_emptied: false }
            }
        }
    })
}
