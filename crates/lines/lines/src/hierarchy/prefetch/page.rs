//! Pages of 4 KiB. Prefetchers of the first-level cache request only lines of the page that the program accesses.

/// Binary logarithm of the number of lines of a page.
pub(super) const PAGE_LINES: u32 = 6;

/// Returns whether two lines are in the same page of 4 KiB.
pub(super) fn is_same_page(line: u64, other: u64) -> bool {
    line >> PAGE_LINES == other >> PAGE_LINES
}
