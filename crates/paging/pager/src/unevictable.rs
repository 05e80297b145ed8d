//! Private pages that stay local whatever the limit is, because they are in mappings whose pages cannot be evicted.
//!
//! Most of them are copies of pages of files: data of libraries, and the archive of classes that Java maps. They count neither for the
//! program's footprint nor against its limit.

use crate::maps::Mapping;
use crate::pagemap::{self, count};
use crate::reserved_region;
use rustix::fd::BorrowedFd;

/// Counts the private pages that cannot be evicted in one process. `maps` is the text of its `/proc/PID/maps`, and `pagemap` its
/// `/proc/PID/pagemap`. Where scans are slow, memory without any access rights is left out, because programs reserve terabytes of it.
pub fn unevictable_pages(maps: &[u8], pagemap: BorrowedFd) -> u64 {
    let mappings = maps.split(|b| *b == b'\n').filter_map(Mapping::parse);
    let kept =
        mappings.filter(|mapping| mapping.keeps_its_own() && !reserved_region::contains(mapping.start));
    let scanned = kept.filter(|mapping| !(pagemap::is_slow() && mapping.is_reserved()));
    scanned.map(|mapping| count(pagemap, mapping.start, mapping.end, true)).sum()
}

/// Returns whether the mapping that a line of `/proc/PID/maps` or `smaps` describes can be remote. Returns `None` if the line does not
/// describe a mapping.
pub fn line_can_be_remote(line: &[u8]) -> Option<bool> {
    // In `smaps`, the lines between mappings begin with a name.
    line.first().filter(|first| first.is_ascii_hexdigit() && !first.is_ascii_uppercase())?;
    Mapping::parse(line).map(|mapping| mapping.can_be_remote())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::PAGE;
    use rustix::fd::AsFd;
    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    #[test]
    fn changed_pages_of_a_file_are_kept_and_read_ones_are_not() {
        let file = rustix::fs::memfd_create("changed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 64 * PAGE as u64).unwrap();
        // SAFETY: a new mapping, which only this test uses.
        let at = unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap(core::ptr::null_mut(), 64 * PAGE, rights, MapFlags::PRIVATE, &file, 0).unwrap() as usize
        };
        let pagemap = rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY, Mode::empty()).unwrap();
        // SAFETY: in the mapping.
        (0..64).for_each(|n| unsafe { _ = ((at + n * PAGE) as *const u8).read_volatile() });
        assert_eq!(count(pagemap.as_fd(), at, at + 64 * PAGE, true), 0);
        // SAFETY: in the mapping.
        (0..64).step_by(3).for_each(|n| unsafe { ((at + n * PAGE) as *mut u8).write_volatile(1) });
        assert_eq!(count(pagemap.as_fd(), at, at + 64 * PAGE, true), 22);
    }

    #[test]
    fn lines_between_mappings_are_none() {
        let heap = b"55d0c1a00000-55d0c2000000 rw-p 00000000 00:00 0 [heap]";
        assert_eq!(line_can_be_remote(heap), Some(true));
        let archive = b"7f5ddb000000-7f5dddc00000 rw-p 00000000 fe:00 99 /usr/lib/classes.jsa";
        assert_eq!(line_can_be_remote(archive), Some(false));
        for other in [&b"Anonymous:  12 kB"[..], b"Pss:  4 kB", b"", b"VmFlags: rd wr"] {
            assert_eq!(line_can_be_remote(other), None);
        }
    }
}
