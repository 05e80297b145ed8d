//! The four functions on bytes that compiled code calls, made of the processor's string instructions: a loop would be
//! compiled to a call of the very function that it is in.

use core::arch::asm;

/// Copies `len` bytes that do not overlap.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// Copies `len` bytes, which may overlap.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= len {
        // SAFETY: as the caller says; forwards, nothing is overwritten before it is read.
        return unsafe { memcpy(to, from, len) };
    }
    let (last, of_words) = (len.wrapping_sub(1), len / 8);
    // SAFETY: as the caller says; backwards, first the bytes of the last part of a word, then whole words.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "sub rdi, 7",
            "sub rsi, 7",
            "mov rcx, {words}",
            "rep movsq",
            "cld",
            words = in(reg) of_words,
            inout("rcx") len % 8 => _,
            inout("rdi") to.wrapping_add(last) => _,
            inout("rsi") from.wrapping_add(last) => _,
            options(nostack)
        );
    }
    to
}

/// Fills `len` bytes.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// Compares bytes.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    let (left, right): (usize, usize);
    // The comparison of a register with itself is for no bytes at all: equal.
    // SAFETY: as the caller says.
    unsafe {
        asm!(
            "cmp rcx, rcx",
            "repe cmpsb",
            "seta {above:l}",
            "setb {below:l}",
            above = out(reg) left,
            below = out(reg) right,
            inout("rcx") len => _,
            inout("rsi") a => _,
            inout("rdi") b => _,
            options(nostack, readonly)
        );
    }
    (left & 1) as i32 - (right & 1) as i32
}

/// Compares bytes for equality.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: as the caller says.
    unsafe { memcmp(a, b, len) }
}

/// Returns the number of bytes before the first zero.
///
/// # Safety
/// As C's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let left: usize;
    // SAFETY: as the caller says.
    unsafe {
        asm!("repne scasb", inout("rcx") usize::MAX => left, inout("rdi") text => _, in("al") 0u8,
            options(nostack, readonly));
    }
    usize::MAX - left - 1
}
