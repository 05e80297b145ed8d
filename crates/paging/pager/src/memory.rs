//! A pager's access to the program's memory through the kernel: a userfaultfd, and three files of `/proc/self`.

use crate::carried::CarriedFiles;
use crate::control::ControlHead;
use crate::maps::{self, PageableArea};
use crate::moves::{self, Moved};
use crate::pagemap::{self, PageRegion};
use crate::stride::MOST_AHEAD;
use crate::sys::{self, PAGE, Uffd};
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
}

impl Memory {
    /// Opens all descriptors, with a userfaultfd that has these features, and registers the arena. `hide` may replace each descriptor with
    /// another one.
    pub(crate) fn open(
        features: u64,
        kept: &mut CarriedFiles,
        hide: impl Fn(OwnedFd) -> Result<OwnedFd, Errno>,
    ) -> Result<Memory, Errno> {
        let files =
            (hide(kept.open(c"self/maps")?)?, hide(kept.open(c"self/statm")?)?, hide(kept.open_pagemap()?)?);
        Memory::of(Uffd::open_through(features, kept.device())?.with_descriptor(&hide)?, files)
    }

    /// Makes the value from open descriptors: a userfaultfd, and `maps`, `statm` and `pagemap` of this process. Registers the arena.
    pub(crate) fn of(
        uffd: Uffd,
        (maps, statm, pagemap): (OwnedFd, OwnedFd, OwnedFd),
    ) -> Result<Memory, Errno> {
        // Moves need a registered destination. The part of the arena that is not opened yet may be registered as well.
        uffd.register(reserved_region::arena(), reserved_region::ARENA_SLOTS * PAGE)?;
        Ok(Memory { uffd, maps, statm, pagemap })
    }

    /// Moves the program's pages at `address` into empty pages of the reserved region.
    pub(crate) fn take(&self, den: usize, address: usize, len: usize) -> Moved {
        moves::take(&self.uffd, self.pagemap.as_fd(), den, address, len)
    }

    /// Moves pages of the reserved region into the program; if `wake`, wakes the threads that wait for them.
    pub(crate) fn give(&self, address: usize, den: usize, len: usize, wake: bool) -> Moved {
        moves::give(&self.uffd, self.pagemap.as_fd(), address, den, len, wake)
    }

    /// Copies an evicted page from the reserved region into memory that is currently not writable, or is locked, where the kernel refuses a
    /// move. The reserved region's page keeps its contents.
    pub(crate) fn copy(&self, control: &ControlHead, address: usize, den: usize) -> Result<(), Errno> {
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
        self.uffd.copy(address, zero_pages(), pages * PAGE)
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
