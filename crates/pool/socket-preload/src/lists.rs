//! Wrappers of the calls that start a program and take its arguments one by one (`execl` and related calls). They need wrappers because the
//! C library does not implement them through the `execve` that this library wraps.
//!
//! The number of arguments is not known in advance. Therefore each wrapper stores the arguments that are in registers next to those on the
//! stack, and calls a function that makes a list of them.

use crate::processes::{environ, execve, execvp};
use libc::{c_char, c_int};

/// Number of arguments that are passed in registers.
const REGISTERS: usize = if cfg!(target_arch = "x86_64") { 6 } else { 8 };

/// Arguments of a call: those that were in registers, and the rest on the stack.
#[derive(Clone, Copy)]
struct VariadicArguments {
    registers: *const *const c_char,
    rest: *const *const c_char,
}

impl VariadicArguments {
    /// # Safety
    /// The call has more than `i` arguments.
    unsafe fn get(self, i: usize) -> *const c_char {
        // SAFETY: the caller's promise.
        unsafe { if i < REGISTERS { *self.registers.add(i) } else { *self.rest.add(i - REGISTERS) } }
    }

    /// Returns the arguments for the program, which follow its path in the call. The list ends with a null pointer.
    ///
    /// # Safety
    /// The arguments end with a null pointer.
    unsafe fn list(self) -> Vec<*const c_char> {
        let mut list = Vec::new();
        loop {
            // SAFETY: none of the previous arguments was null.
            let next = unsafe { self.get(list.len() + 1) };
            list.push(next);
            if next.is_null() {
                return list;
            }
        }
    }
}

unsafe extern "C" fn by_path(registers: *const *const c_char, rest: *const *const c_char) -> c_int {
    let all = VariadicArguments { registers, rest };
    // SAFETY: the caller's own arguments, and the environment of this process.
    unsafe { execve(all.get(0), all.list().as_ptr(), environ) }
}

unsafe extern "C" fn by_name(registers: *const *const c_char, rest: *const *const c_char) -> c_int {
    let all = VariadicArguments { registers, rest };
    // SAFETY: the caller's own arguments.
    unsafe { execvp(all.get(0), all.list().as_ptr()) }
}

unsafe extern "C" fn by_path_with_environment(
    registers: *const *const c_char,
    rest: *const *const c_char,
) -> c_int {
    let all = VariadicArguments { registers, rest };
    // SAFETY: the caller's own arguments; the environment follows the null.
    unsafe {
        let list = all.list();
        execve(all.get(0), list.as_ptr(), all.get(list.len() + 1).cast())
    }
}

macro_rules! lists {
    ($($name:ident, $then:ident;)*) => {$(
        #[doc = concat!("Wraps `", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "x86_64")]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "push r9", "push r8", "push rcx", "push rdx", "push rsi", "push rdi",
                "mov rdi, rsp",
                // Behind six words and the return address.
                "lea rsi, [rsp + 56]",
                "sub rsp, 8",
                "call {then}",
                "add rsp, 56",
                "ret",
                then = sym $then,
            )
        }

        #[doc = concat!("Wraps `", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As the C library's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "aarch64")]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "add x1, sp, #80",
                "bl {then}",
                "ldp x29, x30, [sp], #80",
                "ret",
                then = sym $then,
            )
        }
    )*};
}

lists! {
    execl, by_path;
    execlp, by_name;
    execle, by_path_with_environment;
}
