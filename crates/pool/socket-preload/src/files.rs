//! Wrappers of the calls that pass bytes between a socket and a file or a pipe. The bytes are copied once: read from the file into the
//! ring, or written from the ring into the pipe.

use crate::next;
use libc::{SPLICE_F_NONBLOCK, c_int, c_uint, pollfd, ssize_t};
use std::time::Duration;
use unrack_socket::kernel::{self, fail};
use unrack_socket::{close, has, recv, send};

/// Number of bytes that a writable pipe accepts without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Wraps `sendfile(2)`.
///
/// # Safety
/// As `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut i64, bytes: usize) -> ssize_t {
    // SAFETY: the caller's own arguments.
    let native = || unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, bytes) as ssize_t };
    if !has(to) {
        return native();
    }
    if kind_of(from) != Some(libc::S_IFREG) {
        // The kernel rejects most other kinds of file, and reads block devices itself.
        close::leave(to);
        return native();
    }
    // SAFETY: plain numbers; the caller's offset, or none.
    let start = unsafe { if offset.is_null() { libc::lseek(from, 0, libc::SEEK_CUR) } else { *offset } };
    if start < 0 {
        return native();
    }
    let mut at = start;
    let mut filler = |place: *mut u8, room: usize| {
        // SAFETY: free space in a ring.
        let got = unsafe { libc::syscall(libc::SYS_pread64, from, place, room, at) as ssize_t };
        at += got.max(0) as i64;
        got
    };
    let sent = send::fill(to, bytes, 0, &mut filler, native);
    if at == start {
        // The kernel sent the bytes, or there were none.
    } else if offset.is_null() {
        // SAFETY: only plain numbers are passed.
        unsafe { libc::lseek(from, at, libc::SEEK_SET) };
    } else {
        // SAFETY: the caller's offset.
        unsafe { *offset = at };
    }
    sent
}

/// Wraps `sendfile64`, which is the same as `sendfile`.
///
/// # Safety
/// As `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut i64,
    bytes: usize,
) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { sendfile(to, from, offset, bytes) }
}

/// Wraps `splice(2)`.
///
/// # Safety
/// As `splice(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    bytes: usize,
    flags: c_uint,
) -> ssize_t {
    let native = |done: usize, most: usize| {
        let bytes = (bytes - done).min(most);
        // A call that has already passed bytes does not wait in order to pass more.
        let flags = flags | if done > 0 { SPLICE_F_NONBLOCK } else { 0 };
        // SAFETY: the caller's own arguments.
        unsafe { libc::syscall(libc::SYS_splice, from, from_offset, to, to_offset, bytes, flags) as ssize_t }
    };
    let is_whole = from_offset.is_null() && to_offset.is_null() && bytes > 0;
    if !is_whole || has(from) == has(to) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::splice(from, from_offset, to, to_offset, bytes, flags) };
    }
    if has(from) {
        from_socket(from, to, bytes, flags, native)
    } else {
        to_socket(from, to, bytes, flags, native)
    }
}

/// Passes bytes from a socket to a pipe.
fn from_socket(
    from: c_int,
    pipe: c_int,
    bytes: usize,
    flags: c_uint,
    native: impl Fn(usize, usize) -> ssize_t,
) -> ssize_t {
    if !is_pipe(pipe) || is_refused(pipe, libc::O_RDONLY, flags) {
        // The kernel reports the error, and moves no bytes.
        return native(0, usize::MAX);
    }
    if let Err(errno) = wait_for(pipe, libc::POLLOUT, flags) {
        return fail(errno);
    }
    let mut taker = |place: *const u8, there: usize| {
        let mut done = 0;
        while done < there && is_ready(pipe, libc::POLLOUT, Some(Duration::ZERO)) {
            let most = (there - done).min(PIECE);
            // SAFETY: bytes in a ring.
            let put = unsafe { libc::syscall(libc::SYS_write, pipe, place.wrapping_add(done), most) };
            if put <= 0 {
                return if done > 0 { done as ssize_t } else { put as ssize_t };
            }
            done += put as usize;
        }
        // Another writer may have filled the pipe first.
        if done > 0 { done as ssize_t } else { fail(libc::EAGAIN) }
    };
    // `SPLICE_F_NONBLOCK` applies to the pipe only. Whether the call waits for the socket depends on the socket's `O_NONBLOCK`.
    recv::take(from, bytes, 0, &mut taker, |done, most, _| native(done, most))
}

/// Passes bytes from a pipe to a socket.
fn to_socket(
    pipe: c_int,
    to: c_int,
    bytes: usize,
    flags: c_uint,
    native: impl Fn(usize, usize) -> ssize_t,
) -> ssize_t {
    if !is_pipe(pipe) || is_refused(pipe, libc::O_WRONLY, flags) {
        return native(0, usize::MAX);
    }
    if let Err(errno) = wait_for(pipe, libc::POLLIN, flags) {
        return fail(errno);
    }
    let mut filler = |place: *mut u8, room: usize| {
        if !is_ready(pipe, libc::POLLIN, Some(Duration::ZERO)) {
            return 0;
        }
        // SAFETY: free space in a ring.
        unsafe { libc::syscall(libc::SYS_read, pipe, place, room) as ssize_t }
    };
    send::fill(to, bytes, 0, &mut filler, || native(0, usize::MAX))
}

/// Returns whether the kernel rejects a splice with this pipe, because it is the wrong end of the pipe or a flag is unknown.
fn is_refused(pipe: c_int, wrong_way: c_int, flags: c_uint) -> bool {
    let known = libc::SPLICE_F_MOVE | SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
    flags & !known != 0 || kernel::access_of(pipe) == Some(wrong_way)
}

fn is_pipe(fd: c_int) -> bool {
    kind_of(fd) == Some(libc::S_IFIFO)
}

fn kind_of(fd: c_int) -> Option<libc::mode_t> {
    // SAFETY: all zeros are a valid `stat`.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the C library writes its structure.
    let known = unsafe { libc::fstat(fd, &raw mut stat) == 0 };
    known.then_some(stat.st_mode & libc::S_IFMT)
}

/// Waits until a pipe is ready, unless the call or the pipe is nonblocking.
fn wait_for(pipe: c_int, events: libc::c_short, flags: c_uint) -> Result<(), c_int> {
    let waits = flags & SPLICE_F_NONBLOCK == 0 && !kernel::is_nonblocking(pipe);
    match is_ready(pipe, events, if waits { None } else { Some(Duration::ZERO) }) {
        true => Ok(()),
        false if waits => Err(kernel::errno()),
        false => Err(libc::EAGAIN),
    }
}

fn is_ready(fd: c_int, events: libc::c_short, most: Option<Duration>) -> bool {
    let mut one = [pollfd { fd, events, revents: 0 }];
    // SAFETY: the mask is null.
    unsafe { kernel::poll(&mut one, most, std::ptr::null()) > 0 }
}
