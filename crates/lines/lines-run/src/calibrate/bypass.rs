//! Writes that bypass the caches, and flushes of lines from the caches. Rust has no safe functions for these
//! instructions.
#![allow(unsafe_code)]

/// Whether this architecture is supported: on it, [`write`] bypasses the caches, and [`flush`] removes lines from them.
pub(super) const IS_KNOWN: bool = cfg!(target_arch = "x86_64");

/// Writes a constant to each group of 8 bytes, with stores that bypass the caches.
#[cfg(target_arch = "x86_64")]
pub(super) fn write(bytes: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_set1_epi64x, _mm_sfence, _mm_stream_si128};
    // SAFETY: every x86-64 processor has SSE2.
    let value = unsafe { _mm_set1_epi64x(0x5555) };
    // SAFETY: any bytes are a valid `__m128i`, and any `__m128i` is valid bytes. `align_to_mut` returns an aligned
    // middle part.
    let (_, middle, _) = unsafe { bytes.align_to_mut::<__m128i>() };
    for word in middle {
        // SAFETY: `word` is aligned, and it is writable because it is exclusively borrowed.
        unsafe { _mm_stream_si128(word, value) };
    }
    // SAFETY: every x86-64 processor has SSE. The fence orders these stores before later reads of the memory.
    unsafe { _mm_sfence() };
}

/// Writes a constant to each group of 8 bytes through the caches, because stores that bypass them are not implemented
/// for this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn write(bytes: &mut [u8]) {
    bytes.fill(0x55);
}

/// Removes all lines of `bytes` from all cache levels.
#[cfg(target_arch = "x86_64")]
pub(super) fn flush(bytes: &[u8]) {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in bytes.chunks(super::chase::LINE) {
        // SAFETY: every x86-64 processor has SSE2, and the line is readable.
        unsafe { _mm_clflush(line.as_ptr()) };
    }
    // SAFETY: every x86-64 processor has SSE2. The fence orders the flushes before later reads of the lines.
    unsafe { _mm_mfence() };
}

/// Does nothing, because flushes are not implemented for this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn flush(_bytes: &[u8]) {}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_flushed_keeps_its_values() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        super::flush(&bytes[3..]);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i % 256) as u8));
    }

    #[test]
    fn all_bytes_of_aligned_memory_are_written() {
        let mut words = vec![[0u8; 64]; 8];
        let bytes = words.as_flattened_mut();
        let from = bytes.as_ptr().align_offset(16);
        super::write(&mut bytes[from..from + 256]);
        let expected = if super::IS_KNOWN { 0x5555u64 } else { 0x5555_5555_5555_5555 };
        let (chunks, _) = bytes[from..from + 256].as_chunks::<8>();
        assert!(chunks.iter().all(|word| u64::from_le_bytes(*word) == expected));
        assert!(bytes[from + 256..].iter().all(|&byte| byte == 0));
    }
}
