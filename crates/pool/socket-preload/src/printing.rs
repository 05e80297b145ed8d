//! Wrappers of the calls that print to a descriptor. They leave the socket to the kernel, because the C library prints without calling
//! `write` through this library's wrapper.
//!
//! The number and types of the arguments are not known. Therefore each wrapper saves all registers that may hold arguments, leaves the
//! socket to the kernel, restores the registers, and jumps to the C library's function of its name.

use crate::next::NextFunction;
use libc::{c_int, c_void};
use unrack_socket::{close as ends, kernel};

/// Leaves a socket to the kernel, and returns the address at which the call continues.
extern "C" fn leave_for(fd: c_int, next: &NextFunction) -> *mut c_void {
    let before = kernel::errno();
    ends::leave(fd);
    kernel::fail(before);
    let next = next.get();
    if next.is_null() { refuse as *mut c_void } else { next }
}

/// Fails with `ENOSYS`, in place of a function that no library has.
extern "C" fn refuse() -> c_int {
    kernel::fail(libc::ENOSYS) as c_int
}

macro_rules! printers {
    ($($name:ident, $found:ident, $text:literal;)*) => {$(
        static $found: NextFunction = NextFunction::new($text);

        #[doc = concat!("Wraps `", stringify!($name), "`, whose first argument is a descriptor.")]
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "x86_64")]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                // Seven words and the return address: the stack is aligned to 16 bytes.
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "lea rsi, [rip + {next}]",
                "call {leave}",
                "mov r11, rax",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                next = sym $found,
                leave = sym leave_for,
            )
        }

        #[doc = concat!("Wraps `", stringify!($name), "`, whose first argument is a descriptor.")]
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "aarch64")]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "stp x0, x1, [sp, #-16]!", "stp x2, x3, [sp, #-16]!", "stp x4, x5, [sp, #-16]!", "stp x6, x7, [sp, #-16]!",
                "stp q0, q1, [sp, #-32]!", "stp q2, q3, [sp, #-32]!", "stp q4, q5, [sp, #-32]!", "stp q6, q7, [sp, #-32]!",
                "adrp x1, {next}",
                "add x1, x1, :lo12:{next}",
                "bl {leave}",
                "mov x16, x0",
                "ldp q6, q7, [sp], #32", "ldp q4, q5, [sp], #32", "ldp q2, q3, [sp], #32", "ldp q0, q1, [sp], #32",
                "ldp x6, x7, [sp], #16", "ldp x4, x5, [sp], #16", "ldp x2, x3, [sp], #16", "ldp x0, x1, [sp], #16",
                "ldp x29, x30, [sp], #16",
                "br x16",
                next = sym $found,
                leave = sym leave_for,
            )
        }
    )*};
}

printers! {
    dprintf, DPRINTF, c"dprintf";
    vdprintf, VDPRINTF, c"vdprintf";
    __dprintf_chk, DPRINTF_CHK, c"__dprintf_chk";
    __vdprintf_chk, VDPRINTF_CHK, c"__vdprintf_chk";
}
