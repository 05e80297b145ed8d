//! Preparation of the program's system calls: the memory that a call uses is held before the call is made.

use super::context::ThreadContext;
use super::hold::hold;
use super::outcome::refuse;
use super::raw::{self, Args};
use super::requests::request;
use super::thread::Thread;
use super::touches::{TouchedMemory, touches};
use crate::pins;
use crate::sys::PAGE;
use alloc::format;
use alloc::string::String;
use rustix::io::Errno;

/// Holds the memory of a known system call, and ends the process at an unknown one.
pub(super) fn prepare(thread: &Thread, number: i64, args: Args) {
    if let Some(request) = request(number, args) {
        match request {
            Ok(parts) => parts.iter().for_each(|(at, len)| hold_some(thread, *at, *len)),
            Err(what) => refuse(what),
        }
        return;
    }
    if let Some((start, end)) = used_unasked(number, args) {
        pins::pin_range(start, end);
    }
    match touches(number) {
        Some(list) => list.iter().for_each(|touch| hold_touch(thread, *touch, args)),
        None => refuse(name(number).as_str()),
    }
}

/// Holds the memory of a call again, before a thread returns to a call that a signal interrupted.
pub(super) fn hold_again(thread: &Thread, context: &ThreadContext) {
    if context.stands_at_call() {
        prepare(thread, context.number(), context.args());
    }
}

/// Returns the memory that the kernel will use from now on without further calls, if this call requests that.
fn used_unasked(number: i64, args: Args) -> Option<(usize, usize)> {
    match number {
        libc::SYS_rseq => Some((args[0], args[0].checked_add(args[1].min(PAGE))?)),
        libc::SYS_set_tid_address => Some((args[0], args[0].checked_add(4)?)),
        _ => None,
    }
}

fn name(number: i64) -> String {
    const KNOWN: &[(i64, &str)] = &[
        (libc::SYS_io_uring_setup, "io_uring"),
        (libc::SYS_io_uring_enter, "io_uring"),
        (libc::SYS_io_setup, "io_setup (asynchronous input and output)"),
        (libc::SYS_userfaultfd, "userfaultfd"),
        (libc::SYS_ptrace, "ptrace"),
        (libc::SYS_process_madvise, "process_madvise"),
        (libc::SYS_vmsplice, "vmsplice"),
        (libc::SYS_seccomp, "seccomp"),
        (libc::SYS_bpf, "bpf"),
        (libc::SYS_perf_event_open, "perf_event_open"),
        (libc::SYS_remap_file_pages, "remap_file_pages"),
        (libc::SYS_shmat, "shmat (System V shared memory)"),
        (libc::SYS_semctl, "semctl"),
        (libc::SYS_msgsnd, "msgsnd"),
        (libc::SYS_msgrcv, "msgrcv"),
    ];
    match KNOWN.iter().find(|known| known.0 == number) {
        Some((_, name)) => (*name).into(),
        None => format!("system call {number}"),
    }
}

/// Holds `[at, at+len)` unless it is empty or its address cannot be the program's.
pub(super) fn hold_some(thread: &Thread, at: usize, len: usize) {
    const USER: usize = 1 << 47;
    if at != 0 && len != 0 && at < USER {
        hold(thread, at, at.saturating_add(len).min(USER));
    }
}

fn hold_touch(thread: &Thread, touch: TouchedMemory, args: Args) {
    let arg = |n: u8| args[n as usize];
    match touch {
        TouchedMemory::Bytes(at, len) => hold_some(thread, arg(at), arg(len)),
        TouchedMemory::Fixed(at, len) => hold_some(thread, arg(at), len as usize),
        TouchedMemory::Array(at, n, size) => {
            hold_some(thread, arg(at), (arg(n) as u32 as usize) * size as usize)
        }
        TouchedMemory::Bits(at, n) => hold_some(thread, arg(at), (arg(n) as u32 as usize).div_ceil(64) * 8),
        // Missing pages of another process cannot be fetched from here.
        TouchedMemory::Own(at) => {
            if arg(at) as i32 != rustix::process::getpid().as_raw_nonzero().get() {
                refuse("process_vm_readv or process_vm_writev with another process");
            }
        }
        TouchedMemory::Text(at) => hold_text(thread, arg(at)),
        TouchedMemory::Texts(at) => hold_texts(thread, arg(at)),
        TouchedMemory::Vector(at, n) => hold_vector(thread, arg(at), arg(n)),
        TouchedMemory::Message(at) => hold_message(thread, arg(at)),
        TouchedMemory::Messages(at, n) => {
            const SIZE: usize = 64;
            hold_some(thread, arg(at), arg(n).min(1024) * SIZE);
            (0..arg(n).min(1024)).for_each(|n| hold_message(thread, arg(at) + n * SIZE));
        }
        TouchedMemory::Sized(at, len) => {
            // The length is held already: see the table.
            let len: Result<u32, isize> = raw::read(arg(len));
            hold_some(thread, arg(at), len.unwrap_or(0) as usize);
        }
    }
}

/// Holds a text, page by page up to its end.
fn hold_text(thread: &Thread, at: usize) {
    const PIECE: usize = 256;
    let mut at = at;
    loop {
        let len = PIECE - at % PIECE;
        let mut piece = [0u8; PIECE];
        hold_some(thread, at, 1);
        if raw::read_slice(at, &mut piece[..len]).is_err() || piece[..len].contains(&0) {
            return;
        }
        at += len;
    }
}

fn hold_texts(thread: &Thread, at: usize) {
    for slot in (at..).step_by(8) {
        hold_some(thread, slot, 8);
        match raw::read::<usize>(slot) {
            Ok(text) if text != 0 => hold_text(thread, text),
            _ => return,
        }
    }
}

fn hold_vector(thread: &Thread, at: usize, n: usize) {
    // The kernel refuses longer vectors.
    const MOST: usize = 1024;
    if n > MOST {
        return;
    }
    hold_some(thread, at, n * 16);
    for part in (at..).step_by(16).take(n) {
        let Ok([base, len]) = raw::read::<[usize; 2]>(part) else { return };
        hold_some(thread, base, len);
    }
}

/// Holds all memory that a `struct msghdr` names: name, name length, vector, its length, control, control length, flags.
fn hold_message(thread: &Thread, at: usize) {
    hold_some(thread, at, 56);
    let Ok([name, name_len, vector, n, control, control_len, _]) = raw::read::<[usize; 7]>(at) else {
        return;
    };
    hold_some(thread, name, name_len as u32 as usize);
    hold_vector(thread, vector, n);
    hold_some(thread, control, control_len);
}

/// Reads a value to which an argument points.
pub(super) fn fetch<T: raw::Plain>(thread: &Thread, at: usize) -> Result<T, isize> {
    if at == 0 {
        return Err(raw::error(Errno::FAULT));
    }
    hold_some(thread, at, size_of::<T>());
    raw::read(at)
}

/// Writes a value to an address from an argument.
pub(super) fn store<T: raw::Plain>(thread: &Thread, at: usize, value: T) -> Result<(), isize> {
    hold_some(thread, at, size_of::<T>());
    raw::write(at, value)
}
