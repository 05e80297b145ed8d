//! Copies from and to memory that a peer may write at the same time.
//!
//! A plain load may be repeated: the compiler assumes that nobody writes meanwhile, and may read the source again
//! after the copy was checked. It did so in a handler of six lines (`what_was_checked_is_what_is_used`). Here
//! each byte is loaded once: by atomic accesses, which the compiler neither repeats nor invents, or, for long
//! messages, for which those are slower, by an instruction that is opaque to it.
//!
//! | bytes | ns, in words | ns, by `rep movsb` | ns, by `memcpy` |
//! |---|---|---|---|
//! | 64 | 4.1 | 3.8 | 2.7 |
//! | 200 | 7.7 | 12.7 | 4.3 |
//! | 1,000 | 25 | 18 | 11 |
//! | 4,096 | 95 | 45 | 43 |
//! | 262,144 | 7,428 | 4,916 | 4,898 |
//!
//! Least of seven runs on a virtual machine with other load, with both sides in the cache.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();
/// Most bytes that are copied in words: for more, `rep movsb` is as fast.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const MOST_WORDS: usize = 512;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
const MOST_WORDS: usize = usize::MAX;

/// Copies from shared memory. Each byte is loaded once.
///
/// # Safety
/// The bytes are mapped at `from`, and writable by this thread alone at `to`.
#[inline(always)]
pub(super) unsafe fn load(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe {
        match bytes <= MOST_WORDS {
            true => load_words(from, to, bytes),
            false => move_bytes(from, to, bytes),
        }
    }
}

/// Copies to shared memory. Each byte is stored once, and not read back.
///
/// # Safety
/// The bytes are readable and not written by anybody at `from`, and mapped writable at `to`.
#[inline(always)]
pub(super) unsafe fn store(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller says.
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
/// As [`load`].
#[inline(always)]
unsafe fn load_words(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: all of it is below `bytes`, and words are aligned; atomics may be shared.
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
/// As [`store`].
#[inline(always)]
unsafe fn store_words(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = 0;
    // SAFETY: all of it is below `bytes`, and words are aligned; atomics may be shared.
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

/// Copies by one instruction that the compiler cannot look into.
///
/// # Safety
/// The bytes are mapped at `from`, and mapped writable at `to`; they do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn move_bytes(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the instruction reads and writes just these bytes, upwards, as the direction flag is clear between
    // functions.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Replaces the instruction of x86-64.
///
/// # Safety
/// Never called: here all lengths are copied in words.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn move_bytes(_: *const u8, _: *mut u8, _: usize) {
    unreachable!("all lengths are copied in words");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks both directions, at every alignment and for lengths around every threshold.
    #[test]
    fn every_byte_is_copied_and_no_other() {
        let lengths = (0..40).chain([63, 64, 65, 511, 512, 513, 700]);
        let lengths: Vec<usize> = if cfg!(miri) { lengths.step_by(7).collect() } else { lengths.collect() };
        let pattern: Vec<u8> = (0..800u32).map(|at| (at * 7 + 1) as u8).collect();
        for &bytes in &lengths {
            for shift in 0..9 {
                for copy in [load as unsafe fn(*const u8, *mut u8, usize), store] {
                    let mut copied = vec![0xaa; 900];
                    // SAFETY: both vectors have 8 + 700 bytes.
                    unsafe { copy(pattern.as_ptr().add(shift), copied.as_mut_ptr().add(8 - shift), bytes) };
                    assert_eq!(copied[8 - shift..][..bytes], pattern[shift..][..bytes]);
                    let untouched = copied[..8 - shift].iter().chain(&copied[8 - shift + bytes..]);
                    assert!(untouched.into_iter().all(|byte| *byte == 0xaa), "{bytes} bytes at {shift}");
                }
            }
        }
    }
}
