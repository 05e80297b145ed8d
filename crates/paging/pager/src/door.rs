//! Door of a run: the socket at which threads ask `unrack` to trace them.

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

/// Length of a request in bytes. It consists of the thread's number (0 for the first thread of its process) and of the kind of request.
pub const QUESTION: usize = 8;

static IS_STOPPED_BY_OTHERS: AtomicBool = AtomicBool::new(false);

/// Makes the pager's threads ask to be traced from now on. The program stops all other threads of its process to look at its memory, as
/// LeakSanitizer does, and a stopped pager could not serve the remote pages of that memory. A thread that is traced already cannot be
/// stopped in this way.
pub fn guard_threads() {
    IS_STOPPED_BY_OTHERS.store(true, Relaxed);
}

/// Asks for tracing of the calling pager thread if [`guard_threads`] was called.
pub(crate) fn guard_this_thread() {
    if IS_STOPPED_BY_OTHERS.load(Relaxed) {
        ask(PAGER);
    }
}

/// Sends a request to `unrack` and waits for the answer. If there is no answer, the thread is not traced.
pub fn ask(what: u32) {
    // On an error, the only remedy is to continue untraced.
    let _ = try_ask(what);
}

fn try_ask(what: u32) -> Result<(), Errno> {
    let path = attached::door_path().ok_or(Errno::NOENT)?;
    let address = SocketAddrUnix::new(CStr::from_bytes_until_nul(&path).map_err(|_| Errno::NAMETOOLONG)?)?;
    let thread = rustix::thread::gettid();
    let is_first = thread == rustix::process::getpid();
    // Thread numbers differ in another process namespace, but `unrack` can read from the connection which process sent the request.
    let thread = if is_first { 0 } else { thread.as_raw_nonzero().get() };
    let mut question = [0u8; QUESTION];
    question[..4].copy_from_slice(&thread.to_ne_bytes());
    question[4..].copy_from_slice(&what.to_ne_bytes());
    let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&door, &address)?;
    // Necessary where only ancestors may trace (Yama), because `unrack` may not stay an ancestor of this process.
    let _ = rustix::process::set_ptracer(PTracer::Any);
    let answered = send(&door, &question, SendFlags::NOSIGNAL)
        .and_then(|_| recv(&door, &mut [0u8; 4][..], RecvFlags::empty()).map(drop));
    let _ = rustix::process::set_ptracer(PTracer::None);
    answered
}
