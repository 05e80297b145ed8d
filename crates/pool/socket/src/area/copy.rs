//! Copying into a ring.
//!
//! The cache lines of a ring were last read by another processor. For such lines, string instructions (`rep movsb`), which the C library's
//! `memcpy` uses for kilobytes, took 4.6 times as long as the same copy to private memory, whereas plain stores did not (Intel Xeon, two
//! processors; docs/decisions/0021-sockets.md).

/// Fewest bytes for which the C library copies by string instructions.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 1024;
/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies bytes into a ring.
///
/// # Safety
/// `bytes` bytes are readable at `from` and writable at `to`, and the two ranges do not overlap.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes < LONG {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
    let head = to.align_offset(LINE);
    let lines = (bytes - head) / LINE;
    let done = head + lines * LINE;
    // SAFETY: the head, the lines and the tail together are the range that the caller guaranteed.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        copy_lines(from.add(head), to.add(head), lines);
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
    }
}

/// Copies bytes into a ring.
///
/// # Safety
/// `bytes` bytes are readable at `from` and writable at `to`, and the two ranges do not overlap.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

/// Copies cache lines by stores of 16 bytes. It is written in assembly because the compiler turns a loop into a call of `memcpy`.
///
/// # Safety
/// As [`copy_in`], for `lines` lines; there is at least one, and `to` is aligned to a line.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, lines: usize) {
    // SAFETY: the code reads and writes only the range that the caller guaranteed.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movaps [{to}], {a}",
            "movaps [{to} + 16], {b}",
            "movaps [{to} + 32], {c}",
            "movaps [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_and_nothing_beside() {
        let source: Vec<u8> = (0..5000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for bytes in [0, 1, 63, 64, 1023, 1024, 1025, 1087, 1088, 2048, 4097, 4500] {
            for offsets in [(0, 0), (1, 0), (0, 1), (13, 63), (63, 13), (32, 16)] {
                let mut target = vec![0xff_u8; 5000];
                // SAFETY: both are long enough.
                unsafe { copy_in(source.as_ptr().add(offsets.0), target.as_mut_ptr().add(offsets.1), bytes) };
                let (from, to) = (offsets.0, offsets.1);
                assert_eq!(target[to..to + bytes], source[from..from + bytes], "{bytes} {offsets:?}");
                let beside = target[..to].iter().chain(&target[to + bytes..]);
                assert!(beside.copied().all(|byte| byte == 0xff), "{bytes} {offsets:?}");
            }
        }
    }
}
