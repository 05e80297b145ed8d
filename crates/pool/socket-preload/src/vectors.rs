//! `preadv2(2)` and `pwritev2(2)`, which are `readv` and `writev` where the offset is -1.

use crate::{bytes, next};
use libc::{MSG_DONTWAIT, RWF_NOWAIT, c_int, iovec, msghdr, off64_t, ssize_t};
use unrack_socket::memory::Touch;
use unrack_socket::{Pieces, has, kernel, recv, send};

/// Returns the buffers and the flags of a call that receives or sends; nothing if the kernel is to answer.
///
/// # Safety
/// The list is the caller's of `preadv2(2)`.
unsafe fn as_message<'a>(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> Option<(&'a [iovec], c_int)> {
    if !has(fd) || offset != -1 || count <= 0 || bytes::is_refused(list, count as usize) {
        return None;
    }
    // SAFETY: the caller's list.
    let buffers = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let is_empty = Pieces::new(buffers).left() == 0;
    (flags & !RWF_NOWAIT == 0 && !is_empty).then_some((buffers, if flags != 0 { MSG_DONTWAIT } else { 0 }))
}

/// Makes a message around the caller's buffers.
fn message_of(buffers: &[iovec]) -> msghdr {
    // SAFETY: all zeros are an empty message.
    let mut message = unsafe { std::mem::zeroed::<msghdr>() };
    (message.msg_iov, message.msg_iovlen) = (buffers.as_ptr().cast_mut(), buffers.len() as _);
    message
}

/// Wraps `preadv2(2)`.
///
/// # Safety
/// As `preadv2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's own arguments.
    let Some((buffers, wait)) = (unsafe { as_message(fd, list, count, offset, flags) }) else {
        // SAFETY: the caller's own arguments.
        return unsafe { next::preadv2(fd, list, count, offset, flags) };
    };
    recv::recv(fd, Pieces::unchecked(buffers, Touch::Write), wait, |done, most, more| {
        // SAFETY: the caller's buffers.
        unsafe { bytes::receive(fd, &mut message_of(buffers), done, most, wait | more) }
    })
}

/// Wraps `preadv64v2`, which is `preadv2`.
///
/// # Safety
/// As `preadv2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { preadv2(fd, list, count, offset, flags) }
}

/// Wraps `pwritev2(2)`.
///
/// # Safety
/// As `pwritev2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's own arguments.
    let Some((buffers, wait)) = (unsafe { as_message(fd, list, count, offset, flags) }) else {
        // SAFETY: the caller's own arguments.
        return unsafe { next::pwritev2(fd, list, count, offset, flags) };
    };
    send::send(fd, Pieces::unchecked(buffers, Touch::Read), wait, || {
        let message = message_of(buffers);
        // SAFETY: a message of our own around the caller's buffers.
        unsafe { kernel::sendmsg(fd, &raw const message, wait) }
    })
}

/// Wraps `pwritev64v2`, which is `pwritev2`.
///
/// # Safety
/// As `pwritev2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off64_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { pwritev2(fd, list, count, offset, flags) }
}
