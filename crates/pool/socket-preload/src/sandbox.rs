//! Wrappers of the calls by which a process gives up system calls (`seccomp(2)`). The sockets are handed to the kernel first.
//!
//! A filter may leave a process with `read`, `write` and `exit` only, whereas this library needs more. Programs install filters by `prctl`,
//! or by `syscall` because the C library has no function for `seccomp(2)`. `syscall` is also the way in which programs start others without
//! the C library's own functions.

use crate::processes::prepare_bare;
use libc::{SYS_execve, SYS_prctl, SYS_seccomp, c_char, c_int, c_long, c_ulong};
use unrack_socket::{handover, kernel};

/// Operations of `seccomp(2)` that restrict the process: set strict mode, and set a filter.
const SETS: [usize; 2] = [0, 1];

/// Wraps `prctl(2)`.
///
/// # Safety
/// As `prctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if option == libc::PR_SET_SECCOMP && !handover::give_up_all() {
        return kernel::fail(libc::ENOMEM) as c_int;
    }
    let rest = [second, third, fourth, fifth, 0].map(|word| word as usize);
    // SAFETY: the caller's own arguments.
    unsafe { bare(SYS_prctl, option as usize, rest) as c_int }
}

/// Wraps `syscall(2)`.
///
/// # Safety
/// As `syscall(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let is_filter = number == SYS_seccomp && SETS.contains(&first)
        || number == SYS_prctl && first as c_int == libc::PR_SET_SECCOMP;
    if is_filter && !handover::give_up_all() {
        return kernel::fail(libc::ENOMEM) as c_long;
    }
    // SAFETY: the caller's own arguments.
    if number == SYS_execve && unsafe { !prepare_bare(first as *const c_char, third as *const *const c_char) }
    {
        return -1;
    }
    // SAFETY: the caller's own arguments.
    unsafe { bare(number, first, [second, third, fourth, fifth, sixth]) }
}

/// Makes a system call. It returns results and errors as the C library does.
///
/// # Safety
/// As `syscall(2)`.
#[inline(always)]
unsafe fn bare(number: c_long, first: usize, rest: [usize; 5]) -> c_long {
    // SAFETY: the caller's promise.
    let result = unsafe { enter(number, first, rest) };
    if (-4095..0).contains(&result) { kernel::fail(-result as c_int) as c_long } else { result }
}

/// # Safety
/// As `syscall(2)`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn enter(number: c_long, first: usize, rest: [usize; 5]) -> c_long {
    let result;
    // SAFETY: the caller's promise; the kernel changes only the registers that are declared here.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first, in("rsi") rest[0], in("rdx") rest[1],
            in("r10") rest[2], in("r8") rest[3], in("r9") rest[4],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// As `syscall(2)`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn enter(number: c_long, first: usize, rest: [usize; 5]) -> c_long {
    let result;
    // SAFETY: the caller's promise; the kernel changes only the register that is declared here.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") rest[0], in("x2") rest[1], in("x3") rest[2], in("x4") rest[3], in("x5") rest[4],
            options(nostack)
        );
    }
    result
}
