//! A pager's access to the program's memory through the kernel: a userfaultfd, and three files of `/proc/self`.

use crate::carried::CarriedFiles;
use crate::control::ControlHead;
use crate::copies::{self, PageCopies};
use crate::maps::{self, PageableArea};
use crate::moves::{self, Moved};
use crate::pagemap::{self, PageRegion};
use crate::stride::MOST_AHEAD;
use crate::sys::{self, Event, FEATURE_MOVE, PAGE, Uffd};
use crate::unevictable::unevictable_pages;
use crate::{gate, reserved_region};
use alloc::vec::Vec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// Descriptors for the memory of this process, opened at a time when this is certainly permitted.
pub(crate) struct Memory {
    pub(crate) uffd: Uffd,
    maps: OwnedFd,
    statm: OwnedFd,
    pagemap: OwnedFd,
    /// Present if pages are copied, because the kernel cannot move them.
    copies: Option<PageCopies>,
}

impl Memory {
    /// Opens all descriptors, with a userfaultfd that has these features. Without [`FEATURE_MOVE`], pages are copied. `hide` may replace each
    /// descriptor with another one.
    pub(crate) fn open(
        features: u64,
        kept: &mut CarriedFiles,
        hide: impl Fn(OwnedFd) -> Result<OwnedFd, Errno>,
    ) -> Result<Memory, Errno> {
        let files =
            (hide(kept.open(c"self/maps")?)?, hide(kept.open(c"self/statm")?)?, hide(kept.open_pagemap()?)?);
        let uffd = Uffd::open_through(features, kept.device())?.with_descriptor(&hide)?;
        let copies = (features & FEATURE_MOVE == 0).then(|| PageCopies::new(&uffd));
        Memory::with(uffd, files, copies)
    }

    /// Makes the value from open descriptors: a userfaultfd that moves pages, and `maps`, `statm` and `pagemap` of this process.
    pub(crate) fn of(uffd: Uffd, files: (OwnedFd, OwnedFd, OwnedFd)) -> Result<Memory, Errno> {
        Memory::with(uffd, files, None)
    }

    fn with(
        uffd: Uffd,
        (maps, statm, pagemap): (OwnedFd, OwnedFd, OwnedFd),
        copies: Option<PageCopies>,
    ) -> Result<Memory, Errno> {
        let memory = Memory { uffd, maps, statm, pagemap, copies };
        // The part of the arena that is not opened yet may be registered as well.
        memory.receives(reserved_region::arena(), reserved_region::ARENA_SLOTS * PAGE)?;
        Ok(memory)
    }

    /// Prepares a part of the reserved region to receive pages. Moves need a registered destination. Copies need an unregistered one,
    /// because the pager itself empties it, which the kernel would report to the pager.
    pub(crate) fn receives(&self, start: usize, len: usize) -> Result<(), Errno> {
        match self.copies {
            Some(_) => Ok(()),
            None => self.uffd.register(start, len),
        }
    }

    /// Moves pages at `address`, of the program or of the reserved region, into empty pages of the reserved region.
    pub(crate) fn take(&self, den: usize, address: usize, len: usize) -> Moved {
        match &self.copies {
            None => moves::take(&self.uffd, self.pagemap.as_fd(), den, address, len),
            Some(_) if reserved_region::contains(address) => {
                copies::shift(den, address, len);
                (len, Ok(()))
            }
            Some(copies) => copies.take(&self.uffd, self.pagemap.as_fd(), den, address, len),
        }
    }

    /// Moves pages of the reserved region into the program; if `wake`, wakes the threads that wait for them. Copies always wake them.
    pub(crate) fn give(&self, address: usize, den: usize, len: usize, wake: bool) -> Moved {
        match &self.copies {
            None => moves::give(&self.uffd, self.pagemap.as_fd(), address, den, len, wake),
            Some(copies) => copies.give(&self.uffd, self.pagemap.as_fd(), address, den, len),
        }
    }

    /// Returns whether pages are copied, because the kernel cannot move them.
    pub(crate) fn copies_pages(&self) -> bool {
        self.copies.is_some()
    }

    /// Reads the kernel's messages that are available; see [`Uffd::read`].
    ///
    /// # Errors
    /// The kernel's error if messages cannot be read.
    pub(crate) fn read_events(&self, events: &mut Vec<Event>) -> Result<(), Errno> {
        if let Some(copies) = &self.copies {
            copies.drain(events);
        }
        self.uffd.read(events)
    }

    /// Returns whether [`Memory::read_events`] will return messages that the kernel no longer shows as available.
    pub(crate) fn has_read_events(&self) -> bool {
        self.copies.as_ref().is_some_and(PageCopies::has_messages)
    }

    /// Copies an evicted page from the reserved region into memory that is currently not writable, or is locked, where the kernel refuses a
    /// move. The reserved region's page keeps its contents.
    pub(crate) fn copy(&self, control: &ControlHead, address: usize, den: usize) -> Result<(), Errno> {
        if self.copies.as_ref().is_some_and(PageCopies::has_changes) {
            return Err(Errno::AGAIN);
        }
        if pagemap::is_filled(self.pagemap.as_fd(), den) != Some(true) {
            gate::die(control, gate::EMPTY);
        }
        match self.uffd.copy(address, den, PAGE).1 {
            Err(Errno::EXIST) => gate::die(control, gate::OCCUPIED),
            other => other,
        }
    }

    /// Fills up to [`MOST_AHEAD`] missing pages with zeros. Returns the number of bytes filled, and the error if the kernel stopped early.
    pub(crate) fn fill(&self, address: usize, pages: usize) -> (usize, Result<(), Errno>) {
        match &self.copies {
            Some(_) if reserved_region::is_landing(address) => {
                copies::clear(address, pages * PAGE);
                (pages * PAGE, Ok(()))
            }
            Some(copies) if copies.has_changes() => (0, Err(Errno::AGAIN)),
            _ => self.uffd.copy(address, zero_pages(), pages * PAGE),
        }
    }

    /// Returns the number of resident pages that are neither file-backed nor shared.
    pub(crate) fn anonymous_pages(&self) -> Option<u64> {
        sys::anonymous_pages(self.statm.as_fd())
    }

    /// Returns `/proc/self/pagemap`, which shows the pages that are present.
    pub(crate) fn pagemap(&self) -> BorrowedFd<'_> {
        self.pagemap.as_fd()
    }

    /// Finds pages of `[start, end)` that are present; see [`pagemap::scan_present`].
    pub(crate) fn present(
        &self,
        start: usize,
        end: usize,
        found: &mut [PageRegion],
    ) -> Result<(usize, usize), Errno> {
        pagemap::scan_present(self.pagemap.as_fd(), start, end, found)
    }

    /// Returns the number of private pages that cannot be evicted. `text` is a buffer for reuse.
    pub(crate) fn kept_pages(&self, text: &mut Vec<u8>) -> u64 {
        let read = maps::read_all(self.maps.as_fd(), text);
        read.map_or(0, |len| unevictable_pages(&text[..len], self.pagemap.as_fd()))
    }

    /// Reads the areas that can be remote, lowest address first. `text` is a buffer for reuse.
    pub(crate) fn read_areas(&self, text: &mut Vec<u8>, areas: &mut Vec<PageableArea>) -> Result<(), Errno> {
        maps::read_areas(self.maps.as_fd(), text, areas)
    }
}

/// Returns the address of [`MOST_AHEAD`] pages of zeros.
fn zero_pages() -> usize {
    #[repr(align(4096))]
    struct ZeroPages([u8; MOST_AHEAD * PAGE]);
    static ZEROS: ZeroPages = ZeroPages([0; MOST_AHEAD * PAGE]);
    ZEROS.0.as_ptr() as usize
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
