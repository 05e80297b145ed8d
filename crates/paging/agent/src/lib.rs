//! The pager for programs into which no library can be loaded: static ones, and those of another C library.
//!
//! The tracer maps this object into the program (`unrack-paging`'s `inject`), and makes a stopped thread of it call the
//! functions here, each through [`enter`], on a stack of the agent's own. It needs nothing but the kernel: no C library, no
//! thread-local storage, no loader. The one kind of relocation that it has, the tracer applies.
#![no_std]
#![cfg(target_arch = "x86_64")]

use core::ffi::{CStr, c_char, c_int};
use core::panic::PanicInfo;
use unrack_pager::sys::{self, OURS};
use unrack_pager::{attached, bare_thread, blocking, den, gate, handed, heap, pins};

// Functions on bytes, which compiled code calls.
core::arch::global_asm!(include_str!("../../pager/bytes.s"));

#[global_allocator]
static HEAP: heap::Heap = heap::Heap;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    match attached::control() {
        Some(control) => gate::die(control, "internal error in the pager. Please report this"),
        None => loop {
            core::hint::spin_loop();
        },
    }
}

// The standard library's own code, compiled for unwinding, names these; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

/// Calls the function in `rax`, and then shows its result in `rdi`, by a system call that the tracer's filter hands to it.
/// It is a call as compiled code makes it, so that shadow stacks agree.
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

/// Starts the pager with the control file at `path`; `is_late` is not 0 if the program began before. Returns the address of
/// the table of pinned pages ([`pins::table`]), or an error as the kernel gives it.
///
/// # Safety
/// Called once in an address space; `path` is a text that ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn begin(path: *const c_char, is_late: usize) -> isize {
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) };
    bare_thread::hide_threads();
    let start = if is_late == 0 { blocking::start } else { blocking::start_late };
    sys::refuse_huge_pages();
    match den::reserve().and_then(|()| attached::attach(path)).and_then(start) {
        Ok(()) => pins::table().addr() as isize,
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Receives the files of a process whose memory is borrowed ([`handed::receive`]). Returns the descriptor of its
/// userfaultfd, or an error as the kernel gives it.
///
/// # Safety
/// Called once in an address space; `socket` is a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn receive(socket: c_int) -> isize {
    // SAFETY: as the caller says.
    match unsafe { handed::receive(socket) } {
        Ok(number) => number as isize,
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Starts the pager of borrowed memory, with the files that [`receive`] got, and closes them for the program. Returns what
/// [`begin`] does.
///
/// # Safety
/// Called once, after `receive` succeeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn borrow() -> isize {
    bare_thread::hide_threads();
    // SAFETY: as the caller says.
    match unsafe { blocking::start_to_borrow() } {
        Ok(()) => {
            handed::close();
            pins::table().addr() as isize
        }
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Closes what [`receive`] got.
#[unsafe(no_mangle)]
pub extern "C" fn forsake() -> isize {
    handed::close();
    0
}

/// Puts every page back, and takes none until [`after_fork`].
#[unsafe(no_mangle)]
pub extern "C" fn before_fork() -> isize {
    gate::close();
    0
}

/// Ends [`before_fork`], in the parent.
#[unsafe(no_mangle)]
pub extern "C" fn after_fork() -> isize {
    gate::open();
    0
}

/// Starts a pager in the child of a fork.
///
/// # Safety
/// Called after [`before_fork`], in the child's one thread, before anything else there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn in_child() -> isize {
    // SAFETY: as the caller says.
    unsafe { blocking::start_in_child() };
    0
}

/// Puts every page back and ends the pager: the program is about to filter its system calls.
#[unsafe(no_mangle)]
pub extern "C" fn leave() -> isize {
    blocking::leave();
    0
}

/// Sees to it that the kernel treats `[start, start+len)` as one mapping; see [`gate::merge`].
#[unsafe(no_mangle)]
pub extern "C" fn merge(start: usize, len: usize) -> isize {
    gate::merge(start, len);
    0
}
