//! System calls made by this library's own instructions, which the kernel does not intercept.

use rustix::io::Errno;

/// Arguments of a system call, as in registers.
pub(super) type Args = [usize; 6];

/// Makes a system call. Returns the kernel's raw result, in which an error is a small negative number.
///
/// # Safety
/// The call is the program's own, or does not harm its memory.
pub(super) unsafe fn call(number: usize, args: Args) -> isize {
    let result;
    // SAFETY: the caller guarantees that the call does no harm; the kernel keeps all registers but these.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") args[0], in("rsi") args[1],
            in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5], out("rcx") _, out("r11") _,
            options(nostack));
    }
    result
}

/// Returns whether a raw result is an error.
pub(super) fn is_error(result: isize) -> bool {
    (-4095..0).contains(&result)
}

/// Returns the raw result for an error.
pub(super) fn error(errno: Errno) -> isize {
    -(errno.raw_os_error() as isize)
}

/// Converts a raw result to a `Result`.
pub(super) fn check(result: isize) -> Result<(), Errno> {
    match result {
        0.. => Ok(()),
        error => Err(Errno::from_raw_os_error(-error as i32)),
    }
}

/// Reads the program's memory at `at`, which may be any address. The memory must be held.
pub(super) fn read<T: Plain>(at: usize) -> Result<T, isize> {
    let mut value = T::ZERO;
    copy(libc::SYS_process_vm_readv, &raw mut value as usize, at, size_of::<T>()).map(|()| value)
}

/// Reads a whole slice from the program's memory at `at`, like [`read`].
pub(super) fn read_slice<T: Plain>(at: usize, values: &mut [T]) -> Result<(), isize> {
    copy(libc::SYS_process_vm_readv, values.as_mut_ptr() as usize, at, size_of_val(values))
}

/// Writes to the program's memory at `at`, which may be any address. The memory must be held.
pub(super) fn write<T: Plain>(at: usize, value: T) -> Result<(), isize> {
    copy(libc::SYS_process_vm_writev, &raw const value as usize, at, size_of::<T>())
}

/// Type for which any bytes are valid, and that has no padding.
///
/// # Safety
/// The type has these properties.
pub(super) unsafe trait Plain: Copy {
    const ZERO: Self;
}

// SAFETY: a number.
unsafe impl Plain for u8 {
    const ZERO: u8 = 0;
}
// SAFETY: a number.
unsafe impl Plain for u32 {
    const ZERO: u32 = 0;
}
// SAFETY: a number.
unsafe impl Plain for usize {
    const ZERO: usize = 0;
}
// SAFETY: has the properties of its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {
    const ZERO: [T; N] = [T::ZERO; N];
}

/// Copies by a system call that checks addresses: an invalid address yields `EFAULT` instead of a signal.
fn copy(number: i64, ours: usize, theirs: usize, len: usize) -> Result<(), isize> {
    let (ours, theirs) = ([ours, len], [theirs, len]);
    let pid = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let args = [pid, ours.as_ptr() as usize, 1, theirs.as_ptr() as usize, 1, 0];
    // SAFETY: our side is the caller's value, and the kernel checks the program's side.
    let done = unsafe { call(number as usize, args) };
    if done == len as isize { Ok(()) } else { Err(error(Errno::FAULT)) }
}
