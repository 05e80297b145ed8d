//! Page numbers of a run. One number identifies a page of one process.
//!
//! The top 16 bits contain the process index (0-based, in order of start), the lower bits the virtual page number (address / page size).
//! With 4 KiB pages, 48 bits of page number suffice for any 57-bit address.

const PROCESS_SHIFT: u32 = 48;

/// Returns the number of page `virtual_page` of process number `process`.
///
/// # Panics
/// If `virtual_page` needs more than 48 bits, which no address of a Linux process does.
pub const fn page_number(process: u16, virtual_page: u64) -> u64 {
    assert!(virtual_page >> PROCESS_SHIFT == 0, "a virtual page number has at most 48 bits");
    ((process as u64) << PROCESS_SHIFT) | virtual_page
}

/// Returns the process index of a page number.
pub const fn process_of(page: u64) -> u16 {
    (page >> PROCESS_SHIFT) as u16
}

/// Returns the virtual page number in the address space of the page's process.
pub const fn virtual_page_of(page: u64) -> u64 {
    page & ((1 << PROCESS_SHIFT) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_number_comes_apart_as_it_was_made() {
        for (process, page) in [(0, 0), (1, 0x7_ffff_ffff), (u16::MAX, (1 << 48) - 1)] {
            let number = page_number(process, page);
            assert_eq!((process_of(number), virtual_page_of(number)), (process, page));
        }
        assert_eq!(page_number(3, 5), 0x0003_0000_0000_0005);
    }
}
