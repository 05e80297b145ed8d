//! The pager for programs into which no library can be loaded: static programs, and programs that use another C library.
//!
//! The tracer maps this object into the program (`unrack-paging`'s `inject`), and makes a stopped thread of the program call the functions
//! of this crate. Each call goes through [`enter`] and runs on the agent's own stack. The object depends only on the kernel: it uses no C
//! library, no thread-local storage and no loader. The tracer applies the only kind of relocation that the object contains.
#![no_std]
#![cfg(target_arch = "x86_64")]

use core::ffi::{CStr, c_char, c_int};
use core::panic::PanicInfo;
use unrack_pager::sys::{self, OURS};
use unrack_pager::{attached, bare_thread, blocking, gate, handed, heap, pins, reserved_region};

// Functions on bytes, which compiled code calls.
core::arch::global_asm!(include_str!("../../pager/bytes.s"));

#[global_allocator]
static HEAP: heap::PagerHeap = heap::PagerHeap;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    match attached::control() {
        Some(control) => gate::die(control, "internal error in the pager. Please report this"),
        None => loop {
            core::hint::spin_loop();
        },
    }
}

// The standard library's own code, compiled for unwinding, refers to these functions; no code unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

/// Calls the function whose address is in `rax`. Then shows the function's result to the tracer: the result is in `rdi` during a system
/// call that the tracer's filter reports. The function is called by a `call` instruction, as in compiled code, so that shadow stacks stay
/// consistent.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn enter() {
    core::arch::naked_asm!(
        "xor ebp, ebp",
        "call rax",
        "mov rdi, rax",
        "mov eax, {getpid}",
        "movabs r9, {ours}",
        "syscall",
        "ud2",
        getpid = const 39,
        ours = const OURS,
    )
}

/// Starts the pager with the control file at `path`; `is_late` is not 0 if the program has begun already. Returns the address of the table
/// of pinned pages ([`pins::table`]), or the kernel's raw error.
///
/// # Safety
/// Called once in an address space; `path` is a text that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn begin(path: *const c_char, is_late: usize) -> isize {
    // SAFETY: the caller guarantees a valid text.
    let path = unsafe { CStr::from_ptr(path) };
    bare_thread::hide_threads();
    let start = if is_late == 0 { blocking::start } else { blocking::start_late };
    sys::refuse_huge_pages();
    match reserved_region::reserve().and_then(|()| attached::attach(path)).and_then(start) {
        Ok(()) => pins::table().addr() as isize,
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Receives the files of a process whose memory is borrowed ([`handed::receive`]). Returns the descriptor of its userfaultfd, or the
/// kernel's raw error.
///
/// # Safety
/// Called once in an address space; `socket` is a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn receive(socket: c_int) -> isize {
    // SAFETY: the caller guarantees that it is a descriptor.
    match unsafe { handed::receive(socket) } {
        Ok(number) => number as isize,
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Starts the pager of borrowed memory with the files that [`receive`] obtained, and closes these files in the program's table. Returns the
/// same values as [`begin`].
///
/// # Safety
/// Called once, after `receive` succeeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn borrow() -> isize {
    bare_thread::hide_threads();
    // SAFETY: the caller guarantees that `receive` succeeded.
    match unsafe { blocking::start_to_borrow() } {
        Ok(()) => {
            handed::close();
            pins::table().addr() as isize
        }
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Closes the files that [`receive`] obtained.
#[unsafe(no_mangle)]
pub extern "C" fn forsake() -> isize {
    handed::close();
    0
}

/// Puts every page back into the program, and keeps the pages there until [`after_fork`].
#[unsafe(no_mangle)]
pub extern "C" fn before_fork() -> isize {
    gate::close();
    0
}

/// Allows the pager to take pages out again after [`before_fork`], in the parent.
#[unsafe(no_mangle)]
pub extern "C" fn after_fork() -> isize {
    gate::open();
    0
}

/// Starts a pager in the child of a fork.
///
/// # Safety
/// Called after [`before_fork`], in the child's only thread, before any other function of this crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn in_child() -> isize {
    // SAFETY: the caller guarantees that this is the child of a fork.
    unsafe { blocking::start_in_child() };
    0
}

/// Puts every page back into the program and ends the pager, because the program is about to filter its system calls.
#[unsafe(no_mangle)]
pub extern "C" fn leave() -> isize {
    blocking::leave();
    0
}

/// Makes the kernel treat `[start, start+len)` as one mapping; see [`gate::merge`].
#[unsafe(no_mangle)]
pub extern "C" fn merge(start: usize, len: usize) -> isize {
    gate::merge(start, len);
    0
}
