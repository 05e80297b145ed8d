//! Pages of 4 KiB, beyond which prefetchers of the first level do not go.

/// Lines of a page, as a shift.
pub(super) const PAGE_LINES: u32 = 6;

/// Returns whether two lines are in the same page of 4 KiB.
pub(super) fn is_same_page(line: u64, other: u64) -> bool {
    line >> PAGE_LINES == other >> PAGE_LINES
}
