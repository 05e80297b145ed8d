//! Cache of access sizes. With it, the recorder asks QEMU only once for the size of each description of an access.

use crate::qemu::{AccessInfo, Qemu};

/// Number of descriptions of accesses that the cache can hold, a power of two. The accesses of a program have a few
/// dozen different descriptions.
const ENTRIES: usize = 64;

/// Direct-mapped cache. It maps QEMU's description of an access to the size of the access and to whether it is a store.
pub(crate) struct SizeCache([(AccessInfo, u8, bool); ENTRIES]);

impl SizeCache {
    pub(crate) fn new() -> SizeCache {
        // No access has 0 bytes, so a size of 0 marks a free entry.
        SizeCache([(0, 0, false); ENTRIES])
    }

    /// Returns the number of bytes of an access, and whether the access is a store.
    #[inline]
    pub(crate) fn access(&mut self, info: AccessInfo, qemu: &Qemu) -> (u8, bool) {
        let entry = &mut self.0[(info ^ info >> 5 ^ info >> 13) as usize % ENTRIES];
        if entry.0 != info || entry.1 == 0 {
            let (bytes, is_store) = qemu.access(info);
            *entry = (info, bytes, is_store);
        }
        (entry.1, entry.2)
    }
}
