//! Process that made a handle.
//!
//! A child made by `fork` has a copy of its parent's memory, and shares its sockets and mappings with it, but has none of
//! its threads. If it used a connection of its parent, both would answer each other's requests, and locks that another
//! thread held at the fork would never be released. So a handle belongs to the process that made it: it is refused in any
//! other, and dropping it there changes nothing outside of that process.
//!
//! The check must cost nothing on the way of a call, so it is no system call: a page that the kernel empties at each fork
//! (`MADV_WIPEONFORK`) has a mark of the process.

use crate::client::Error;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Mark of the process that made a handle.
#[derive(Debug, Clone, Copy)]
pub struct Maker {
    word: &'static AtomicU64,
    mark: u64,
    /// Number of the process where the kernel empties no pages, else zero.
    pid: i32,
}

/// Page that is empty after a fork.
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
    /// [`Error::Forked`] if it is a child of that process.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}

/// Returns the mark of this process, which no process has that it descends from.
fn mark(word: &AtomicU64) -> u64 {
    /// Last mark that was given. A child continues with its parent's number.
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
        // SAFETY: a mapping of its own, at an address that the kernel picks.
        let mapped =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        match mapped {
            Ok(at) => {
                // SAFETY: nothing is in the page yet.
                let emptied = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxWipeOnFork) };
                // SAFETY: zeros are an atomic, it is aligned, and the page is never unmapped.
                Page { word: unsafe { &*at.cast::<AtomicU64>() }, is_emptied: emptied.is_ok() }
            }
            Err(_) => {
                static WORD: AtomicU64 = AtomicU64::new(0);
                Page { word: &WORD, is_emptied: false }
            }
        }
    })
}
