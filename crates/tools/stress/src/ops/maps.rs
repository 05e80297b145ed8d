//! Operations that map, unmap, move, protect and advise memory.

use crate::model;
use crate::region::{Page, Region};
use crate::story::{expect, note};
use crate::sys::{self, READ_WRITE};
use crate::worker::Worker;
use unrack_basis::PAGE;

/// Maps a new region.
pub(super) fn map(w: &mut Worker) {
    let pages = w.any_size();
    note(format_args!("{pages} pages"));
    w.fresh(pages);
}

/// Unmaps a whole region, its head or its tail.
pub(super) fn unmap(w: &mut Worker) {
    let i = w.any_region(2);
    let len = w.regions[i].len();
    let cut = w.rng.between(1, len - 1);
    match w.rng.below(3) {
        0 => w.discard(i),
        1 => cut_tail(w, i, cut),
        _ => {
            let id = w.new_id();
            let tail = w.regions[i].split_off(cut, id);
            w.discard(i);
            w.adopt(tail);
        }
    }
}

/// Unmaps the middle of a region.
pub(super) fn hole(w: &mut Worker) {
    let i = w.any_region(3);
    cut_out(w, i, false);
}

/// Maps new memory over the middle of a region.
pub(super) fn replace(w: &mut Worker) {
    let i = w.any_region(3);
    cut_out(w, i, true);
}

/// Unmaps the pages of a region from `at` on.
fn cut_tail(w: &mut Worker, i: usize, at: usize) {
    let id = w.new_id();
    let mut tail = w.regions[i].split_off(at, id);
    tail.verify(tail.all());
    sys::unmap(tail.base, tail.len());
}

/// Unmaps the middle of a region, or maps new memory over it if `refill` is true.
fn cut_out(w: &mut Worker, i: usize, refill: bool) {
    let len = w.regions[i].len();
    let from = w.rng.between(1, len - 2);
    let to = w.rng.between(from + 1, len - 1);
    note(format_args!("pages {from}..{to} of {len}"));
    let (middle_id, tail_id) = (w.new_id(), w.new_id());
    let mut middle = w.regions[i].split_off(from, middle_id);
    let tail = middle.split_off(to - from, tail_id);
    if refill {
        sys::map_over(middle.base, middle.len(), READ_WRITE);
        (middle.pages, middle.prot) = (vec![Page::ZERO; middle.len()], READ_WRITE);
        middle.verify(middle.all());
        let i = w.adopt(middle);
        w.write_some(i);
    } else {
        middle.verify(middle.all());
        sys::unmap(middle.base, middle.len());
    }
    w.adopt(tail);
}

/// Reserves address space and makes parts of it usable, as allocators do.
pub(super) fn reserve(w: &mut Worker) {
    let pages = w.any_size().max(4);
    let base = sys::map(pages, libc::PROT_NONE, sys::ANONYMOUS | libc::MAP_NORESERVE, -1);
    let mut at = 0;
    while at < pages {
        let step = w.rng.between(1, pages - at);
        sys::protect(base + at * PAGE, step, READ_WRITE);
        at += step;
        if w.rng.one_in(3) {
            break;
        }
    }
    if at < pages {
        sys::unmap(base + at * PAGE, pages - at);
    }
    let region = Region { id: w.new_id(), base, pages: vec![Page::ZERO; at], prot: READ_WRITE };
    let i = w.adopt(region);
    w.write_some(i);
}

/// Grows a region, shrinks it, moves it, or moves it and leaves the old range mapped.
pub(super) fn remap(w: &mut Worker) {
    let i = w.any_region(2);
    let mut region = w.regions.swap_remove(i);
    region.verify(region.all());
    let len = region.len();
    let kind = w.rng.below(4);
    note(format_args!("kind {kind}, {len} pages"));
    match kind {
        0 => {
            let more = w.any_size();
            region.base = sys::remap(region.base, len, len + more, libc::MREMAP_MAYMOVE, None);
            region.pages.resize(len + more, Page::ZERO);
        }
        1 => {
            let less = w.rng.between(1, len - 1);
            region.base = sys::remap(region.base, len, less, 0, None);
            region.pages.truncate(less);
        }
        2 => {
            let target = sys::map(len, libc::PROT_NONE, sys::ANONYMOUS, -1);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            region.base = sys::remap(region.base, len, len, flags, Some(target));
        }
        _ => {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
            let old = region.base;
            region.base = sys::remap(old, len, len, flags, None);
            let emptied =
                Region { id: w.new_id(), base: old, pages: vec![Page::ZERO; len], prot: region.prot };
            let i = w.adopt(emptied);
            w.regions[i].verify(0..len);
        }
    }
    region.verify(region.all());
    let i = w.adopt(region);
    if w.rng.one_in(2) {
        w.write_some(i);
    }
}

/// Changes the protection of a region. Then checks part of it, or writes part of it (which makes it writable again), or does neither.
pub(super) fn protect(w: &mut Worker) {
    let i = w.any_region(1);
    let prot = [libc::PROT_NONE, libc::PROT_READ, READ_WRITE][w.rng.below(3)];
    w.regions[i].protect(prot);
    let range = w.any_range(i, 64);
    match w.rng.below(3) {
        0 => w.regions[i].verify(range),
        1 => w.write(i, range),
        _ => {}
    }
}

/// Discards pages of a region (MADV_DONTNEED), which must be zeros afterwards.
pub(super) fn dontneed(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, usize::MAX);
    let region = &mut w.regions[i];
    region.verify(range.clone());
    sys::advise(region.address(range.start), range.len(), libc::MADV_DONTNEED, false);
    region.zeroed(range.clone());
    region.verify(range);
}

/// Frees pages of a region lazily (MADV_FREE), and may write them again.
pub(super) fn free(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, usize::MAX);
    let region = &mut w.regions[i];
    sys::advise(region.address(range.start), range.len(), libc::MADV_FREE, false);
    region.freed(range.clone());
    region.verify(range.clone());
    if w.rng.one_in(2) {
        w.write(i, range.clone());
        w.regions[i].verify(range);
    }
}

/// Gives advice that changes no byte. Old kernels refuse some advice.
pub(super) fn advise(w: &mut Worker) {
    const ADVICE: &[i32] = &[
        libc::MADV_WILLNEED,
        libc::MADV_POPULATE_READ,
        libc::MADV_POPULATE_WRITE,
        libc::MADV_COLD,
        libc::MADV_PAGEOUT,
        libc::MADV_SEQUENTIAL,
        libc::MADV_RANDOM,
    ];
    let advice = ADVICE[w.rng.below(ADVICE.len())];
    let i = w.any_region(1);
    // The last two kinds of advice become a property of the mapping. If they were given for a part, they would split the mapping, and the
    // kernel does not move a range that consists of several mappings.
    let whole = matches!(advice, libc::MADV_SEQUENTIAL | libc::MADV_RANDOM);
    let range = if whole { w.regions[i].all() } else { w.any_range(i, 256) };
    note(format_args!("advice {advice}"));
    let region = &mut w.regions[i];
    sys::advise(region.address(range.start), range.len(), advice, true);
    region.verify(range);
}

/// Requests large pages for a new region, writes the region sparsely, and discards parts of it.
pub(super) fn large(w: &mut Worker) {
    let pages = w.rng.between(512, 1536);
    let region = Region::map(w.new_id(), pages);
    sys::advise(region.base, pages, libc::MADV_HUGEPAGE, true);
    let i = w.adopt(region);
    for _ in 0..4 {
        let range = w.any_range(i, 300);
        w.write(i, range);
    }
    let range = w.any_range(i, 64);
    let region = &mut w.regions[i];
    sys::advise(region.address(range.start), range.len(), libc::MADV_DONTNEED, false);
    region.zeroed(range);
    sys::advise(region.base, pages, libc::MADV_COLLAPSE, true);
    region.verify(0..pages);
    if w.rng.one_in(2) {
        sys::advise(w.regions[i].base, pages, libc::MADV_NOHUGEPAGE, true);
        w.discard(i);
    }
}

/// Locks pages of a region in memory, writes them, and unlocks them.
pub(super) fn lock(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, 16);
    let version = w.new_version();
    let region = &mut w.regions[i];
    region.protect(READ_WRITE);
    sys::lock_briefly(region.address(range.start), range.len(), || {
        region.verify(range.clone());
        region.write(range.clone(), w.seed, version);
    });
    region.verify(range);
}

/// Maps a file both privately and shared, and checks that each mapping has the correct bytes.
pub(super) fn file(w: &mut Worker) {
    let pages = w.rng.between(1, 64);
    let file = sys::File::anonymous(pages);
    let shared = sys::map(pages, READ_WRITE, libc::MAP_SHARED, file.0);
    let private = sys::map(pages, READ_WRITE, libc::MAP_PRIVATE, file.0);
    let version = w.new_version();
    let key = |page: usize, what: u64| model::key(w.seed, what, version, page as u64);
    let check = |base: usize, page: usize, what: u64| {
        expect(model::check(sys::bytes(base + page * PAGE, PAGE), key(page, what)), "mapped file");
    };
    for page in 0..pages {
        model::fill(sys::bytes_mut(shared + page * PAGE, PAGE), key(page, 1));
        check(private, page, 1);
    }
    for page in (0..pages).step_by(2) {
        model::fill(sys::bytes_mut(private + page * PAGE, PAGE), key(page, 2));
    }
    for page in 0..pages {
        check(shared, page, 1);
        check(private, page, if page % 2 == 0 { 2 } else { 1 });
    }
    // Discarding a private copy makes the file's bytes visible again.
    sys::advise(private, pages, libc::MADV_DONTNEED, false);
    (0..pages).for_each(|page| check(private, page, 1));
    sys::unmap(shared, pages);
    sys::unmap(private, pages);
}
