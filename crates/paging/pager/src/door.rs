//! Door of a run, at which threads ask `unrack` to trace them.

use crate::attached;
use crate::control::PAGER;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use rustix::process::PTracer;

/// Length of a question: a thread's number, 0 for the first of its process, and what it asks for.
pub const QUESTION: usize = 8;

static IS_STOPPED_BY_OTHERS: AtomicBool = AtomicBool::new(false);

/// Lets our threads be traced from now on, since the program stops all others of its process to look at its memory, as
/// LeakSanitizer does: a thread that is traced already cannot be stopped so, and a look at remote memory waits for ours.
pub fn guard_threads() {
    IS_STOPPED_BY_OTHERS.store(true, Relaxed);
}

/// Asks for [`guard_threads`], in a thread of ours.
pub(crate) fn guard_this_thread() {
    if IS_STOPPED_BY_OTHERS.load(Relaxed) {
        ask(PAGER);
    }
}

/// Asks, and waits for the answer. If there is none, the thread is not traced.
pub fn ask(what: u32) {
    // There is no other remedy than to go on.
    let _ = try_ask(what);
}

fn try_ask(what: u32) -> Result<(), Errno> {
    let path = attached::door_path().ok_or(Errno::NOENT)?;
    let address = SocketAddrUnix::new(CStr::from_bytes_until_nul(&path).map_err(|_| Errno::NAMETOOLONG)?)?;
    let thread = rustix::thread::gettid();
    let is_first = thread == rustix::process::getpid();
    // Another process namespace has other numbers, but knows whom a connection is from.
    let thread = if is_first { 0 } else { thread.as_raw_nonzero().get() };
    let mut question = [0u8; QUESTION];
    question[..4].copy_from_slice(&thread.to_ne_bytes());
    question[4..].copy_from_slice(&what.to_ne_bytes());
    let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&door, &address)?;
    // Where only ancestors may trace (Yama), which ours may not be for long.
    let _ = rustix::process::set_ptracer(PTracer::Any);
    let answered = send(&door, &question, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&door, &mut [0u8; 4][..], RecvFlags::empty()).map(drop));
    let _ = rustix::process::set_ptracer(PTracer::None);
    answered
}
