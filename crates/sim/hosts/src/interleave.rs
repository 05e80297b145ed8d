//! Placement of a transfer in the interleaved memories of a rack.

/// Divides `bytes` from `address` on over memories that are interleaved in units of `granule` bytes. Returns each
/// memory that has a share, with the share in bytes. Memories are in the order of their first byte, and each appears
/// once.
pub(super) fn shares(
    memories: u32,
    granule: u64,
    address: u64,
    bytes: u64,
) -> impl Iterator<Item = (u32, u64)> {
    let (first, end) = (address / granule, (address + bytes).div_ceil(granule));
    // Bytes of the first and of the last granule that are not part of the transfer.
    let (before, behind) = (address - first * granule, end * granule - (address + bytes));
    let (all, count) = (end - first, u64::from(memories));
    // Each memory has `each` granules; the first `more` memories have one granule more.
    let (each, more) = (all / count, all % count);
    // Index of the memory that holds the last granule.
    let last = if more == 0 { count - 1 } else { more - 1 };
    let begin = (first % count) as u32;
    (0..all.min(count)).map(move |n| {
        let mut share = (each + u64::from(n < more)) * granule;
        share -= if n == 0 { before } else { 0 };
        share -= if n == last { behind } else { 0 };
        let memory = begin + n as u32;
        (if memory < memories { memory } else { memory - memories }, share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a placement byte by byte: byte b is in memory b / granule mod memories (DRack §2.5).
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
