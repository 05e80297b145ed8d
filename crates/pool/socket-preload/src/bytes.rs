//! Wrappers of the calls that send and receive bytes.

use crate::next;
use crate::ready::from_timespec;
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};
use std::time::Instant;
use unrack_socket::kernel::{self, fail};
use unrack_socket::memory::{self, BufferUse};
use unrack_socket::{Pieces, close, handover, has, options, recv, send, zerocopy};

/// Returns whether a list of buffers can be read.
fn is_list(list: *const iovec, count: usize) -> bool {
    memory::allows(BufferUse::Read, list.cast(), count.saturating_mul(size_of::<iovec>()))
}

/// Returns whether a message can be accessed in this way, and its list of buffers can be read.
fn is_message(access: BufferUse, message: *const msghdr) -> bool {
    if !memory::allows(access, message.cast(), size_of::<msghdr>()) {
        return false;
    }
    // SAFETY: the message was found readable.
    let (list, count) = unsafe { ((*message).msg_iov, (*message).msg_iovlen) };
    list.is_null() || is_list(list, count)
}

/// Returns whether `count` messages can be written.
fn are_messages(messages: *const mmsghdr, count: u32) -> bool {
    memory::allows(BufferUse::Write, messages.cast(), (count as usize).saturating_mul(size_of::<mmsghdr>()))
}

fn one(base: *const c_void, bytes: usize) -> [iovec; 1] {
    [iovec { iov_base: base.cast_mut(), iov_len: bytes }]
}

/// Wraps `read(2)`.
///
/// # Safety
/// As `read(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, bytes: usize) -> ssize_t {
    // A `read` of zero bytes returns immediately, whereas a `recv` of zero bytes waits.
    if !has(fd) || bytes == 0 {
        // SAFETY: the caller's own arguments.
        return unsafe { next::read(fd, to, bytes) };
    }
    // SAFETY: the caller's own arguments.
    let native = || unsafe { libc::syscall(libc::SYS_read, fd, to, bytes) as ssize_t };
    let pieces = one(to, bytes);
    recv::recv(fd, Pieces::unchecked(&pieces, BufferUse::Write), 0, |done, most, flags| match flags {
        0 if done == 0 && most >= bytes => native(),
        // SAFETY: the caller's own arguments.
        _ => unsafe { kernel::recv(fd, to.cast::<u8>().wrapping_add(done), (bytes - done).min(most), flags) },
    })
}

/// Wraps `recvfrom(2)`.
///
/// # Safety
/// As `recvfrom(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    bytes: usize,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    if !has(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::recvfrom(fd, to, bytes, flags, from, length) };
    }
    let native = |done: usize, most: usize, more: c_int| {
        let (to, bytes) = (to.cast::<u8>().wrapping_add(done), (bytes - done).min(most));
        // SAFETY: the caller's own arguments.
        unsafe { libc::syscall(libc::SYS_recvfrom, fd, to, bytes, flags | more, from, length) as ssize_t }
    };
    let got = recv::recv(fd, Pieces::unchecked(&one(to, bytes), BufferUse::Write), flags, native);
    if got >= 0 && !from.is_null() && memory::allows(BufferUse::Write, length.cast(), size_of::<socklen_t>())
    {
        // SAFETY: the word was found writable. A stream has no sender's address, which the kernel indicates by a length of zero.
        unsafe { *length = 0 };
    }
    got
}

/// Wraps `recv(2)`.
///
/// # Safety
/// As `recv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(fd: c_int, to: *mut c_void, bytes: usize, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { recvfrom(fd, to, bytes, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// Wraps `__read_chk`, which replaces `read` under `_FORTIFY_SOURCE`.
///
/// # Safety
/// As `read(2)`; `room` is the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, to: *mut c_void, bytes: usize, room: usize) -> ssize_t {
    check(bytes, room);
    // SAFETY: the caller's own arguments.
    unsafe { read(fd, to, bytes) }
}

/// Wraps `__recv_chk`, which replaces `recv` under `_FORTIFY_SOURCE`.
///
/// # Safety
/// As `recv(2)`; `room` is the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    bytes: usize,
    room: usize,
    flags: c_int,
) -> ssize_t {
    check(bytes, room);
    // SAFETY: the caller's own arguments.
    unsafe { recv(fd, to, bytes, flags) }
}

/// Wraps `__recvfrom_chk`, which replaces `recvfrom` under `_FORTIFY_SOURCE`.
///
/// # Safety
/// As `recvfrom(2)`; `room` is the size of the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    bytes: usize,
    room: usize,
    flags: c_int,
    from: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    check(bytes, room);
    // SAFETY: the caller's own arguments.
    unsafe { recvfrom(fd, to, bytes, flags, from, length) }
}

/// Aborts the program if it is about to write past the end of a buffer, as the C library does.
fn check(bytes: usize, room: usize) {
    if bytes > room {
        eprintln!("*** buffer overflow detected ***: terminated");
        std::process::abort();
    }
}

/// Returns whether the kernel would reject a list of buffers because it is too long, cannot be read, or has a buffer of negative length.
pub(crate) fn is_refused(list: *const iovec, count: usize) -> bool {
    let is_list = count <= libc::UIO_MAXIOV as usize && is_list(list, count);
    // SAFETY: the list was found readable.
    !is_list || (0..count).any(|i| unsafe { (*list.add(i)).iov_len } > isize::MAX as usize)
}

/// Wraps `readv(2)`.
///
/// # Safety
/// As `readv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if !has(fd) || count <= 0 || is_refused(list, count as usize) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::readv(fd, list, count) };
    }
    // SAFETY: the caller's list.
    let pieces =
        Pieces::unchecked(unsafe { std::slice::from_raw_parts(list, count as usize) }, BufferUse::Write);
    if pieces.left() == 0 {
        // SAFETY: the caller's own arguments.
        return unsafe { next::readv(fd, list, count) };
    }
    recv::recv(fd, pieces, 0, |done, most, flags| {
        // SAFETY: all zeros are a valid, empty message.
        let mut message = unsafe { std::mem::zeroed::<msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (list.cast_mut(), count as _);
        // SAFETY: a local message that refers to the caller's buffers.
        unsafe { receive(fd, &mut message, done, most, flags) }
    })
}

/// Wraps `recvmsg(2)`.
///
/// # Safety
/// As `recvmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if !has(fd) || !is_message(BufferUse::Write, message) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::recvmsg(fd, message, flags) };
    }
    // SAFETY: the caller's message.
    let message = unsafe { &mut *message };
    if flags & libc::MSG_ERRQUEUE != 0 && !options::is_unix(fd) {
        // SAFETY: the caller's message.
        return unsafe { zerocopy::report(fd, message, flags) };
    }
    let list = message.msg_iov;
    let count = if list.is_null() { 0 } else { message.msg_iovlen };
    if is_refused(list, count) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::recvmsg(fd, message, flags) };
    }
    // SAFETY: the caller's list; empty if there is none.
    let pieces = unsafe { std::slice::from_raw_parts(if count == 0 { [].as_ptr() } else { list }, count) };
    let mut asked_kernel = false;
    let (room, control) = (message.msg_namelen, message.msg_controllen);
    let asked = (&raw mut asked_kernel, &raw mut *message);
    let native = |done: usize, most: usize, more: c_int| {
        // SAFETY: the two pointers refer to values that outlive the call.
        let (asked, message) = unsafe { (&mut *asked.0, &mut *asked.1) };
        *asked = true;
        (message.msg_namelen, message.msg_controllen) = (room, control);
        // SAFETY: the caller's message.
        unsafe { receive(fd, message, done, most, flags | more) }
    };
    let got = match control {
        0 => recv::recv(fd, Pieces::unchecked(pieces, BufferUse::Write), flags, native),
        _ => recv::recv_beside(fd, Pieces::unchecked(pieces, BufferUse::Write), flags, native),
    };
    if got >= 0 && !asked_kernel {
        (message.msg_namelen, message.msg_controllen, message.msg_flags) = (0, 0, 0);
    }
    if got >= 0 {
        // SAFETY: the caller's room.
        unsafe { options::tell_inq(fd, message, control) };
    }
    got
}

/// Receives a message from the kernel: at most `most` bytes, which are stored after the first `done` bytes of the buffers.
///
/// # Safety
/// As `recvmsg(2)`.
pub(crate) unsafe fn receive(
    fd: c_int,
    message: &mut msghdr,
    done: usize,
    most: usize,
    flags: c_int,
) -> ssize_t {
    if done == 0 && most == usize::MAX {
        // SAFETY: the caller's promise.
        return unsafe { kernel::recvmsg(fd, message, flags) };
    }
    let (list, count) = (message.msg_iov, message.msg_iovlen);
    // SAFETY: the caller's list.
    let mut short = unsafe { std::slice::from_raw_parts(list, count) }.to_vec();
    let (mut skip, mut left) = (done, most);
    for piece in &mut short {
        let first = skip.min(piece.iov_len);
        skip -= first;
        piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(first).cast();
        piece.iov_len = (piece.iov_len - first).min(left);
        left -= piece.iov_len;
    }
    message.msg_iov = short.as_mut_ptr();
    // SAFETY: the caller's promise, with a shorter list.
    let got = unsafe { kernel::recvmsg(fd, message, flags) };
    message.msg_iov = list;
    got
}

/// Wraps `recvmmsg(2)`. Like the kernel, it checks the timeout only after each message, and a later call reports an error that occurs after
/// the first message.
///
/// # Safety
/// As `recvmmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: u32,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !has(fd) || count == 0 || !are_messages(messages, count) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::recvmmsg(fd, messages, count, flags, timeout) };
    }
    // SAFETY: the caller's time.
    let Ok(most) = (unsafe { from_timespec(timeout) }) else { return fail(libc::EINVAL) as c_int };
    let deadline = most.and_then(|most| Instant::now().checked_add(most));
    let (mut done, mut flags) = (0, flags);
    // The kernel accepts at most `UIO_MAXIOV` messages at a time.
    let count = (count as usize).min(libc::UIO_MAXIOV as usize);
    while done < count {
        // SAFETY: the caller's messages.
        let next = unsafe { &mut *messages.add(done) };
        // SAFETY: the caller's own message.
        let got = unsafe { recvmsg(fd, &raw mut next.msg_hdr, flags & !libc::MSG_WAITFORONE) };
        if got < 0 {
            break;
        }
        next.msg_len = got as u32;
        done += 1;
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let Some(left) = left {
            // SAFETY: the caller's time.
            unsafe { *timeout = kernel::to_timespec(left) };
        }
        if left.is_some_and(|left| left.is_zero()) || next.msg_hdr.msg_flags & libc::MSG_OOB != 0 {
            break;
        }
    }
    if done == 0 { -1 } else { done as c_int }
}

/// Wraps `write(2)`.
///
/// # Safety
/// As `write(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, bytes: usize) -> ssize_t {
    if !has(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::write(fd, from, bytes) };
    }
    // SAFETY: the caller's own arguments.
    let native = || unsafe { libc::syscall(libc::SYS_write, fd, from, bytes) as ssize_t };
    send::send(fd, Pieces::unchecked(&one(from, bytes), BufferUse::Read), 0, native)
}

/// Wraps `sendto(2)`.
///
/// # Safety
/// As `sendto(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    bytes: usize,
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if !has(fd) || !to.is_null() {
        // SAFETY: the caller's own arguments.
        return unsafe { next::sendto(fd, from, bytes, flags, to, length) };
    }
    // SAFETY: the caller's own arguments.
    let native = || unsafe { libc::syscall(libc::SYS_sendto, fd, from, bytes, flags, to, length) as ssize_t };
    send::send(fd, Pieces::unchecked(&one(from, bytes), BufferUse::Read), flags, native)
}

/// Wraps `send(2)`.
///
/// # Safety
/// As `send(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(fd: c_int, from: *const c_void, bytes: usize, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { sendto(fd, from, bytes, flags, std::ptr::null(), 0) }
}

/// Wraps `writev(2)`.
///
/// # Safety
/// As `writev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    if !has(fd) || count <= 0 || is_refused(list, count as usize) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::writev(fd, list, count) };
    }
    // SAFETY: the caller's own arguments.
    let native = || unsafe { libc::syscall(libc::SYS_writev, fd, list, count) as ssize_t };
    // SAFETY: the caller's list.
    let pieces = unsafe { std::slice::from_raw_parts(list, count as usize) };
    send::send(fd, Pieces::unchecked(pieces, BufferUse::Read), 0, native)
}

/// Wraps `sendmsg(2)`. A message with descriptors or credentials attached goes through the kernel, and so does everything that is sent
/// afterwards.
///
/// # Safety
/// As `sendmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own arguments.
    let native = || unsafe { kernel::sendmsg(fd, message, flags) };
    if !is_message(BufferUse::Read, message) {
        // The kernel reports the error in the message.
        return native();
    }
    // SAFETY: the caller's message.
    let passes = unsafe { passes(&*message) };
    // SAFETY: the caller's own message.
    if passes && unsafe { !take_back_passed(&*message) } {
        return fail(libc::ENOMEM);
    }
    if !has(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::sendmsg(fd, message, flags) };
    }
    // SAFETY: the caller's message.
    let message = unsafe { &*message };
    if passes {
        close::leave(fd);
    }
    let count = if message.msg_iov.is_null() { 0 } else { message.msg_iovlen };
    if count == 0 || is_refused(message.msg_iov, count) {
        return native();
    }
    // SAFETY: the caller's list.
    let pieces = unsafe { std::slice::from_raw_parts(message.msg_iov, count) };
    send::send(fd, Pieces::unchecked(pieces, BufferUse::Read), flags, native)
}

/// Returns whether a message has control data.
fn passes(message: &msghdr) -> bool {
    message.msg_controllen > 0 && !message.msg_control.is_null()
}

/// Returns carried sockets to the kernel if the message passes them to another process (`SCM_RIGHTS`). Returns false if this fails for one
/// of them.
///
/// # Safety
/// A message as `sendmsg(2)` takes it.
unsafe fn take_back_passed(message: &msghdr) -> bool {
    // SAFETY: the caller's message.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the C library returned a header within the message.
        let (found, data) = unsafe { (header.read_unaligned(), libc::CMSG_DATA(header).cast::<c_int>()) };
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let bytes = found.cmsg_len.saturating_sub(size_of_val(&found));
            for i in 0..bytes / size_of::<c_int>() {
                // SAFETY: this number of descriptors follows the header.
                if !handover::take_back(unsafe { data.add(i).read_unaligned() }) {
                    return false;
                }
            }
        }
        // SAFETY: the C library steps within the message that the caller made.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    true
}

/// Wraps `sendmmsg(2)`.
///
/// # Safety
/// As `sendmmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: u32,
    flags: c_int,
) -> c_int {
    if !are_messages(messages, count) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    }
    // SAFETY: the caller's messages.
    let all = unsafe { std::slice::from_raw_parts(messages, count as usize) };
    if !has(fd) && !all.iter().any(|message| passes(&message.msg_hdr)) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::sendmmsg(fd, messages, count, flags) };
    }
    for i in 0..count {
        // SAFETY: the caller's messages.
        let message = unsafe { &mut *messages.add(i as usize) };
        // SAFETY: the caller's own messages.
        let sent = unsafe { sendmsg(fd, &raw const message.msg_hdr, flags) };
        if sent < 0 {
            return if i > 0 { i as c_int } else { -1 };
        }
        message.msg_len = sent as u32;
    }
    count as c_int
}
