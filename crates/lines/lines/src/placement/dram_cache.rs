//! Local memory that the hardware manages as a cache of remote memory (DRAM cache).
//!
//! The cache copies memory in granules, which are aligned groups of lines. If local memory contains the granule of a
//! read, local memory serves the read. Otherwise remote memory serves it, and the granule is copied to local memory, as in
//! DRack's DRAM cache (Zhang et al., USENIX ATC 2025). A write-back from the last-level cache goes to local memory if
//! local memory contains its granule, and to remote memory otherwise.

use crate::cache::{Cache, MODIFIED};

/// Local memory as a cache of remote memory, with counts of the copied granules.
#[derive(Clone, Debug)]
pub(super) struct DramCache {
    cache: Cache,
    /// Binary logarithm of the bytes of a granule.
    granule: u32,
    /// Number of modified granules that were evicted from local memory.
    written: u64,
    /// Number of granules that were copied to local memory.
    brought: u64,
}

impl DramCache {
    /// Creates an empty cache. `granule_bytes` is a power of two.
    pub(super) fn new(near_bytes: u64, granule_bytes: u64, ways: u32) -> DramCache {
        let sets = (near_bytes / (granule_bytes * u64::from(ways))).max(1);
        let granule = granule_bytes.trailing_zeros();
        DramCache { cache: Cache::shared(sets, ways), granule, written: 0, brought: 0 }
    }

    /// Reads a line. If local memory does not contain the line's granule, the granule is copied there. Returns whether
    /// local memory already contained the granule.
    pub(super) fn read(&mut self, address: u64) -> bool {
        let granule = address >> self.granule;
        if self.cache.touch(granule).is_some() {
            return true;
        }
        self.brought += 1;
        let victim = self.cache.insert(granule, 0);
        self.written += u64::from(victim.is_some_and(|victim| victim.flags & MODIFIED != 0));
        false
    }

    /// Writes a line back. Returns whether local memory contained the line's granule.
    pub(super) fn write(&mut self, address: u64) -> bool {
        let granule = self.cache.touch(address >> self.granule);
        granule.map(|flags| *flags |= MODIFIED).is_some()
    }

    /// Removes a 4 KiB page from local memory without writing it back, even if it is modified.
    pub(super) fn forget(&mut self, page: u64) {
        let (first, end) = (page << 12 >> self.granule, ((page + 1) << 12).div_ceil(1 << self.granule));
        // A granule larger than a page stays in local memory, because it may also contain pages that are still in use.
        if self.granule <= 12 {
            (first..end).for_each(|granule| _ = self.cache.remove(granule));
        }
    }

    /// Resets the counts of copied and evicted granules to 0.
    pub(super) fn forget_counts(&mut self) {
        (self.brought, self.written) = (0, 0);
    }

    /// Returns the number of bytes that were copied into local memory, and the number of modified bytes that were
    /// evicted from it. The lines that the program requested are not included.
    pub(super) fn moved_bytes(&self) -> [u64; 2] {
        [self.brought << self.granule, self.written << self.granule]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_near_until_its_set_is_full() {
        for (granule, ways) in [(64, 1), (256, 4), (4096, 2)] {
            let mut cache = DramCache::new(granule * 64, granule, ways);
            let granules = 0..64;
            assert!(granules.clone().all(|number| !cache.read(number * granule)));
            assert!(granules.clone().all(|number| cache.read(number * granule + granule - 1)));
            // A cyclic scan over twice the capacity always misses.
            (0..128).for_each(|number| _ = cache.read(number * granule));
            let far = (0..128).filter(|number| !cache.read(number * granule)).count();
            assert_eq!(far, 128, "{granule} bytes in {ways} ways");
        }
    }

    #[test]
    fn write_backs_stay_where_the_granule_is_and_leave_with_it() {
        let mut cache = DramCache::new(64, 64, 1);
        assert!(!cache.write(0) && !cache.read(0), "a write brings nothing");
        assert!(cache.write(0) && cache.read(0));
        cache.read(640);
        assert!(!cache.write(0));
        cache.read(0);
        assert_eq!(cache.moved_bytes(), [192, 64]);
    }

    #[test]
    fn a_page_that_is_given_back_is_far() {
        let mut cache = DramCache::new(1 << 20, 256, 4);
        [0x1000, 0x1f00, 0x2000].iter().for_each(|address| _ = cache.read(*address));
        cache.forget(1);
        assert_eq!([0x1000, 0x1f00, 0x2000].map(|address| cache.read(address)), [false, false, true]);
    }
}
