//! Copies from and to memory that a peer may write at the same time.
//!
//! A plain load could be repeated: because the compiler assumes that no other thread writes meanwhile, it may read the
//! source again after the copy was checked. It did so in a handler of six lines (`what_was_checked_is_what_is_used`).
//! Here each byte is loaded only once. Short messages use atomic accesses, which the compiler neither repeats nor
//! invents. Long messages, for which atomic accesses are slower, use an instruction that is opaque to the compiler.
//!
//! | bytes | ns, in words | ns, by `rep movsb` | ns, by `memcpy` |
//! |---|---|---|---|
//! | 64 | 4.1 | 3.8 | 2.7 |
//! | 200 | 7.7 | 12.7 | 4.3 |
//! | 1,000 | 25 | 18 | 11 |
//! | 4,096 | 95 | 45 | 43 |
//! | 262,144 | 7,428 | 4,916 | 4,898 |
//!
//! Minimum over seven runs on a virtual machine with other load, with source and destination in the cache.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();
/// Largest number of bytes that are copied in words. Beyond that, `rep movsb` is as fast.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const MOST_WORDS: usize = 512;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
const MOST_WORDS: usize = usize::MAX;

/// Copies from shared memory. Each byte is loaded only once.
///
/// # Safety
/// The bytes must be mapped at `from`, and at `to` they must be writable by this thread alone.
#[inline(always)]
pub(super) unsafe fn load(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        match bytes <= MOST_WORDS {
            true => load_words(from, to, bytes),
            false => move_bytes(from, to, bytes),
        }
    }
}

/// Copies to shared memory. Each byte is stored only once, and is not read back.
///
/// # Safety
/// The bytes at `from` must be readable and not written by any thread, and the bytes at `to` must be mapped writable.
#[inline(always)]
pub(super) unsafe fn store(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        match bytes <= MOST_WORDS {
            true => store_words(from, to, bytes),
            false => move_bytes(from, to, bytes),
        }
    }
}

/// Copies from shared memory by atomic loads.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
unsafe fn load_words(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: all offsets are below `bytes`, and words are aligned; atomics may be shared.
    unsafe {
        if (from as usize).is_multiple_of(WORD) {
            while bytes - at >= WORD {
                let word = (*from.add(at).cast::<AtomicU64>()).load(Ordering::Relaxed);
                to.add(at).cast::<u64>().write_unaligned(word);
                at += WORD;
            }
        }
        while at < bytes {
            to.add(at).write((*from.add(at).cast::<AtomicU8>()).load(Ordering::Relaxed));
            at += 1;
        }
    }
}

/// Copies to shared memory by atomic stores.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
unsafe fn store_words(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: all offsets are below `bytes`, and words are aligned; atomics may be shared.
    unsafe {
        if (to as usize).is_multiple_of(WORD) {
            while bytes - at >= WORD {
                let word = from.add(at).cast::<u64>().read_unaligned();
                (*to.add(at).cast::<AtomicU64>()).store(word, Ordering::Relaxed);
                at += WORD;
            }
        }
        while at < bytes {
            (*to.add(at).cast::<AtomicU8>()).store(from.add(at).read(), Ordering::Relaxed);
            at += 1;
        }
    }
}

/// Copies by one instruction, whose effect on memory the compiler cannot analyse.
///
/// # Safety
/// The bytes must be mapped at `from` and mapped writable at `to`, and the two ranges must not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn move_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the instruction reads and writes exactly these bytes, in ascending order, because the direction flag is
    // clear between functions.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Stands in for the instruction of x86-64 on other processors.
///
/// # Safety
/// It is never called, because on these processors all lengths are copied in words.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn move_bytes(_: *const u8, _: *mut u8, _: usize) {
    unreachable!("all lengths are copied in words");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the two directions at every alignment, for lengths around every threshold.
    #[test]
    fn every_byte_is_copied_and_no_other() {
        let lengths = (0..40).chain([63, 64, 65, 511, 512, 513, 700]);
        let lengths: Vec<usize> = if cfg!(miri) { lengths.step_by(7).collect() } else { lengths.collect() };
        let pattern: Vec<u8> = (0..800u32).map(|at| (at * 7 + 1) as u8).collect();
        for &bytes in &lengths {
            for shift in 0..9 {
                for copy in [load as unsafe fn(*const u8, *mut u8, usize), store] {
                    let mut copied = vec![0xaa; 900];
                    // SAFETY: each vector has 8 + 700 bytes.
                    unsafe { copy(pattern.as_ptr().add(shift), copied.as_mut_ptr().add(8 - shift), bytes) };
                    assert_eq!(copied[8 - shift..][..bytes], pattern[shift..][..bytes]);
                    let untouched = copied[..8 - shift].iter().chain(&copied[8 - shift + bytes..]);
                    assert!(untouched.into_iter().all(|byte| *byte == 0xaa), "{bytes} bytes at {shift}");
                }
            }
        }
    }
}
