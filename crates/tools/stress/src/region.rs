//! Ranges of mapped pages, and the expected bytes of each page.

use crate::model::{self, WrongByte, ZEROS};
use crate::story::expect;
use crate::sys;
use std::ops::Range;
use unrack_basis::{PAGE, mix_13};

/// Expected bytes of one page.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    key: u64,
    /// True after MADV_FREE: until the page is written again, it contains either the old bytes or zeros.
    lazy: bool,
}

impl Page {
    /// Page of zeros.
    pub(crate) const ZERO: Page = Page { key: ZEROS, lazy: false };
}

/// Range of mapped pages.
pub(crate) struct Region {
    pub id: u64,
    pub base: usize,
    pub pages: Vec<Page>,
    /// Current protection of the mapping.
    pub prot: i32,
}

impl Region {
    /// Maps a region of zeros.
    pub(crate) fn map(id: u64, pages: usize) -> Region {
        Region {
            id,
            base: sys::map(pages, sys::READ_WRITE, sys::ANONYMOUS, -1),
            pages: vec![Page::ZERO; pages],
            prot: sys::READ_WRITE,
        }
    }

    /// Returns the number of pages.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns the range of all pages.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.len()
    }

    /// Returns the address of a page.
    pub(crate) fn address(&self, page: usize) -> usize {
        self.base + page * PAGE
    }

    /// Sets the protection of the whole region.
    pub(crate) fn protect(&mut self, prot: i32) {
        if self.prot != prot {
            sys::protect(self.base, self.len(), prot);
            self.prot = prot;
        }
    }

    /// Writes new bytes into whole pages.
    pub(crate) fn write(&mut self, range: Range<usize>, seed: u64, version: u64) {
        self.protect(sys::READ_WRITE);
        for page in range {
            let key = self.stamp(page, seed, version);
            model::fill(sys::bytes_mut(self.address(page), PAGE), key);
        }
    }

    /// Notes that a page will be filled with new bytes, and returns their key.
    pub(crate) fn stamp(&mut self, page: usize, seed: u64, version: u64) -> u64 {
        let key = model::key(seed, self.id, version, page as u64);
        self.pages[page] = Page { key, lazy: false };
        key
    }

    /// Notes that pages are zeros from now on.
    pub(crate) fn zeroed(&mut self, range: Range<usize>) {
        self.pages[range].fill(Page::ZERO);
    }

    /// Notes that pages may become zeros at any time.
    pub(crate) fn freed(&mut self, range: Range<usize>) {
        for page in &mut self.pages[range] {
            page.lazy = page.key != ZEROS;
        }
    }

    /// Writes those pages again whose bytes the kernel may still discard. Touches no other page.
    pub(crate) fn settle(&mut self, range: Range<usize>, seed: u64, version: u64) {
        self.protect(sys::READ_WRITE);
        for page in range {
            if self.pages[page].lazy {
                self.write(page..page + 1, seed, version);
            }
        }
    }

    /// Notes that the pages from `to` on are now copies of the pages `from`.
    pub(crate) fn copied(&mut self, from: Range<usize>, to: usize) {
        self.pages.copy_within(from, to);
    }

    /// Checks every byte of the pages, whatever their protection is.
    pub(crate) fn verify(&mut self, range: Range<usize>) {
        let prot = self.prot;
        if prot & libc::PROT_READ == 0 {
            self.protect(libc::PROT_READ);
        }
        for page in range {
            expect(self.check(page), format_args!("page {page} of {} of region {}", self.len(), self.id));
        }
        self.protect(prot);
    }

    fn check(&self, page: usize) -> Result<(), WrongByte> {
        let found = sys::bytes(self.address(page), PAGE);
        let Page { key, lazy } = self.pages[page];
        match model::check(found, key) {
            // The page may become zeros while it is compared; afterwards all its bytes are zeros.
            Err(_) if lazy => model::check(found, ZEROS),
            result => result,
        }
    }

    /// Moves the pages from `at` on to a new region.
    pub(crate) fn split_off(&mut self, at: usize, id: u64) -> Region {
        Region { id, base: self.address(at), pages: self.pages.split_off(at), prot: self.prot }
    }

    /// Returns a number that depends on the expected bytes of all pages.
    pub(crate) fn digest(&self) -> u64 {
        self.pages.iter().fold(self.id, |d, page| mix_13(d ^ page.key))
    }
}
