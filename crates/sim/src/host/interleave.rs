//! Which part of a transfer is in which memory.

/// Bytes in each memory of a set that has them in turn, `granule` at a time: of `bytes` from `address` on. Memories
/// come in the order in which their first byte is met, each once; those that have none do not come.
pub(super) fn shares(
    memories: u32,
    granule: u64,
    address: u64,
    bytes: u64,
) -> impl Iterator<Item = (u32, u64)> {
    let memories = u64::from(memories);
    let (first, end) = (address / granule, (address + bytes).div_ceil(granule));
    // Bytes of the first and the last granule that are not asked for.
    let (before, behind) = (address - first * granule, end * granule - (address + bytes));
    (first..end.min(first + memories)).map(move |granule_met| {
        let granules = (end - granule_met).div_ceil(memories);
        let last_met = granule_met + (granules - 1) * memories;
        let mut share = granules * granule;
        share -= if granule_met == first { before } else { 0 };
        share -= if last_met + 1 == end { behind } else { 0 };
        ((granule_met % memories) as u32, share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Byte by byte: byte b is in memory b / granule mod memories (DRack §2.5).
        #[test]
        fn each_byte_is_counted_where_it_is(memories in 1u32..9, power in 8u32..12, address in 0u64..1 << 16, bytes in 1u64..20_000) {
            let granule = 1u64 << power;
            let mut expected = vec![0u64; memories as usize];
            for byte in address..address + bytes {
                expected[(byte / granule % u64::from(memories)) as usize] += 1;
            }
            let mut found = vec![0u64; memories as usize];
            for (memory, share) in shares(memories, granule, address, bytes) {
                prop_assert!(share > 0 && found[memory as usize] == 0);
                found[memory as usize] = share;
            }
            prop_assert_eq!(found, expected);
        }
    }
}
