//! Work of client and server on the bytes of a call, which is the same for every peer.

/// Writes every byte; the values depend on the seed.
#[inline]
pub fn fill(bytes: &mut [u8], seed: u64) {
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed ^ index as u64).to_ne_bytes());
    }
}

/// Reads every byte, and returns a sum.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .fold(0, u64::wrapping_add)
}
