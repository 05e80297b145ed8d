//! System calls that bypass the C library. They return results as the C library does: -1 on failure, with the reason in `errno`.
//!
//! None of the C library's functions of these names is called, because they may be this library's own wrappers.

use libc::{c_int, c_long, c_short, c_void, iovec, msghdr, pollfd, sockaddr, socklen_t, timespec};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sets `errno`, and returns -1.
pub fn fail(errno: c_int) -> isize {
    // SAFETY: the C library owns this location, one for each thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Returns `errno`.
pub fn errno() -> c_int {
    // SAFETY: the C library owns this location, one for each thread.
    unsafe { *libc::__errno_location() }
}

/// Receives into one buffer.
///
/// # Safety
/// `bytes` bytes at `to` are writable, or the kernel answers `EFAULT`.
pub unsafe fn recv(fd: c_int, to: *mut u8, bytes: usize, flags: c_int) -> isize {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the kernel checks the addresses.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, bytes, flags, none, none) as isize }
}

/// Sends one buffer.
///
/// # Safety
/// `bytes` bytes at `from` are readable, or the kernel answers `EFAULT`.
pub unsafe fn send(fd: c_int, from: *const u8, bytes: usize, flags: c_int) -> isize {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the kernel checks the addresses.
    unsafe { libc::syscall(libc::SYS_sendto, fd, from, bytes, flags, none, 0) as isize }
}

/// Receives a message.
///
/// # Safety
/// As `recvmsg(2)`.
pub unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: the kernel checks the addresses.
    unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) as isize }
}

/// Sends a message.
///
/// # Safety
/// As `sendmsg(2)`.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize {
    // SAFETY: the kernel checks the addresses.
    unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) as isize }
}

/// Sends a list of buffers, with flags.
///
/// # Safety
/// The buffers are readable, or the kernel answers `EFAULT`.
pub unsafe fn send_all_of(fd: c_int, from: &[iovec], flags: c_int) -> isize {
    // SAFETY: all zeros are a valid, empty message.
    let mut message = unsafe { std::mem::zeroed::<msghdr>() };
    message.msg_iov = from.as_ptr().cast_mut();
    message.msg_iovlen = from.len() as _;
    // SAFETY: a local message that refers to the caller's buffers.
    unsafe { sendmsg(fd, &raw const message, flags) }
}

/// Returns how many bytes can be received without waiting.
pub fn readable(fd: c_int) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one `int`.
    let asked = unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::FIONREAD, &raw mut bytes) };
    if asked == 0 { bytes.max(0) as usize } else { 0 }
}

/// Calls `ppoll(2)`.
///
/// # Safety
/// `mask` is null or a signal set of the kernel's size.
pub unsafe fn poll(fds: &mut [pollfd], timeout: Option<Duration>, mask: *const c_void) -> isize {
    let mut time = timeout.map(to_timespec);
    let time = time.as_mut().map_or(std::ptr::null_mut(), |time| time as *mut timespec);
    // SAFETY: a slice that this function borrows; the kernel checks the mask.
    unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), time, mask, SIGSET_BYTES) as isize }
}

/// Waits until one descriptor has one of these events, at most for `most`. Returns the result of `ppoll(2)` and the reported events.
pub fn poll_one(fd: c_int, events: c_short, most: Option<Duration>) -> (isize, c_short) {
    let mut one = [pollfd { fd, events, revents: 0 }];
    // SAFETY: the mask is null.
    let ready = unsafe { poll(&mut one, most, std::ptr::null()) };
    (ready, one[0].revents)
}

/// Returns the events that the kernel reports for a descriptor now, without waiting.
pub fn events(fd: c_int, asked: c_short) -> c_short {
    poll_one(fd, asked, Some(Duration::ZERO)).1
}

/// Size of the kernel's signal set, in bytes.
pub const SIGSET_BYTES: usize = 8;

/// Converts a duration to the kernel's `timespec`.
pub fn to_timespec(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs().min(i64::MAX as u64) as _, tv_nsec: time.subsec_nanos() as _ }
}

/// Returns the value of a socket option of type `int`.
pub fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let asked =
        unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut length) };
    (asked == 0).then_some(value)
}

/// Returns the value of a socket option that is 64 bits wide.
pub fn wide_option(fd: c_int, level: c_int, name: c_int) -> Option<u64> {
    let mut value: u64 = 0;
    let mut length = size_of::<u64>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let asked =
        unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut length) };
    (asked == 0 && length == 8).then_some(value)
}

/// Sets a socket option of type `int`.
pub fn set_option(fd: c_int, level: c_int, name: c_int, value: c_int) {
    let length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, &raw const value, length) };
}

/// Makes the kernel reset the connection when the socket is closed (`SO_LINGER` with a time of zero).
pub fn reset_at_end(fd: c_int) {
    let now = libc::linger { l_onoff: 1, l_linger: 0 };
    let (level, name, bytes) = (libc::SOL_SOCKET, libc::SO_LINGER, size_of::<libc::linger>());
    // SAFETY: the kernel reads a local structure.
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, &raw const now, bytes) };
}

/// Returns the address of a socket, or of its peer.
pub fn name(fd: c_int, peer: bool) -> Option<(libc::sockaddr_storage, usize)> {
    // SAFETY: all zeros are a valid address.
    let mut address = unsafe { std::mem::zeroed::<libc::sockaddr_storage>() };
    let mut length = size_of_val(&address) as socklen_t;
    let call = if peer { libc::SYS_getpeername } else { libc::SYS_getsockname };
    let to: *mut sockaddr = (&raw mut address).cast();
    // SAFETY: the kernel writes at most `length` bytes.
    let asked = unsafe { libc::syscall(call, fd, to, &raw mut length) };
    (asked == 0).then_some((address, length as usize))
}

/// Returns whether calls on the descriptor do not wait (`O_NONBLOCK`).
pub fn is_nonblocking(fd: c_int) -> bool {
    has_flag(fd, libc::O_NONBLOCK)
}

/// Returns whether the descriptor has a flag (`F_GETFL`).
pub fn has_flag(fd: c_int, flag: c_int) -> bool {
    // SAFETY: only plain numbers are passed.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) };
    flags >= 0 && flags & c_long::from(flag) != 0
}

/// Returns how a descriptor was opened: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
pub fn access_of(fd: c_int) -> Option<c_int> {
    // SAFETY: only plain numbers are passed.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL, 0) };
    (flags >= 0).then_some(flags as c_int & libc::O_ACCMODE)
}

/// Reads the beginning of a file into `to`. Returns the number of bytes read.
pub fn read_file(path: &std::ffi::CStr, to: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a path that ends in zero.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) };
    let file = (opened >= 0).then_some(opened as c_int)?;
    // SAFETY: a buffer that this function borrows.
    let got = unsafe { libc::syscall(libc::SYS_read, file, to.as_mut_ptr(), to.len()) };
    close(file);
    usize::try_from(got).ok()
}

/// Reads a whole file by system calls only, because the standard library would call this library's own wrapper of `close`.
pub fn read_whole(path: &std::ffi::CStr) -> Vec<u8> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a path that ends in zero.
    let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) as c_int };
    let (mut all, mut piece) = (Vec::new(), [0_u8; 4096]);
    if file < 0 {
        return all;
    }
    loop {
        // SAFETY: a local buffer.
        let got = unsafe { libc::syscall(libc::SYS_read, file, piece.as_mut_ptr(), piece.len()) };
        let Ok(got @ 1..) = usize::try_from(got) else { break };
        all.extend_from_slice(&piece[..got]);
    }
    close(file);
    all
}

/// Closes a descriptor.
pub fn close(fd: c_int) -> isize {
    // SAFETY: only a plain number is passed.
    unsafe { libc::syscall(libc::SYS_close, fd) as isize }
}

/// Sleeps while a shared word has a value, at most for `most`. Returns -1 if the sleep timed out or was interrupted.
pub fn futex_wait(word: &AtomicU32, value: u32, most: Duration) -> isize {
    let most = to_timespec(most);
    // SAFETY: the word and the time are borrowed for the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const most) as isize
    }
}

/// Wakes at most `most` threads that sleep on a shared word.
pub fn futex_wake(word: &AtomicU32, most: c_int) {
    // SAFETY: the word is borrowed for the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most) };
}

/// Returns whether a thread has ended or never existed. A killed process counts as ended even before its parent has reaped it, although it
/// still has its number.
pub fn is_gone(thread: u32) -> bool {
    // SAFETY: signal 0 only tests whether the thread exists.
    let sent = unsafe { libc::syscall(libc::SYS_tkill, thread, 0) };
    sent != 0 && errno() == libc::ESRCH || is_zombie(thread)
}

/// Returns whether a thread is a zombie, which has ended but still has its number (`proc_pid_stat(5)`).
fn is_zombie(thread: u32) -> bool {
    let mut path = [0_u8; 32];
    let written = {
        use std::io::Write;
        let mut rest = &mut path[..];
        write!(rest, "/proc/{thread}/stat\0").is_ok()
    };
    let Ok(path) = std::ffi::CStr::from_bytes_until_nul(&path) else { return false };
    let mut stat = [0; 128];
    let got = if written { read_file(path, &mut stat) } else { None };
    // The state follows the name, which is in parentheses, may contain parentheses, and has at most 15 bytes.
    let stat = &stat[..got.unwrap_or(0)];
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, Some(b'Z' | b'X'))
}

/// Returns whether a signal may have interrupted a call for good: the process has a handler without `SA_RESTART`.
pub fn is_interruptible() -> bool {
    (1..=64).any(|signal| {
        // Layout of the kernel's structure on all supported machines: handler, flags, restorer, mask.
        let mut action = [0_usize; 4];
        let none = std::ptr::null_mut::<c_void>();
        // SAFETY: the kernel writes its structure, which fits.
        let asked =
            unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, none, action.as_mut_ptr(), SIGSET_BYTES) };
        asked == 0 && action[0] > 1 && action[1] & libc::SA_RESTART as usize == 0
    })
}
