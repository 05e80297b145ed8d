//! Wrappers of `preadv2(2)` and `pwritev2(2)`, which behave like `readv` and `writev` if the offset is -1.

use crate::{bytes, next};
use libc::{MSG_DONTWAIT, RWF_NOWAIT, c_int, iovec, msghdr, off64_t, ssize_t};
use unrack_socket::memory::BufferUse;
use unrack_socket::{Pieces, has, kernel, recv, send};

/// Returns the buffers and the flags of a call that this library handles; `None` if the kernel is to handle it.
///
/// # Safety
/// The list of buffers is valid as for `preadv2(2)`.
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

/// Makes a message that refers to the caller's buffers.
fn message_of(buffers: &[iovec]) -> msghdr {
    // SAFETY: all zeros are a valid, empty message.
    let mut message = unsafe { std::mem::zeroed::<msghdr>() };
    (message.msg_iov, message.msg_iovlen) = (buffers.as_ptr().cast_mut(), buffers.len() as _);
    message
}

/// Defines the wrapper of a call under each of its two names in the C library.
macro_rules! wrapped {
    ($page:literal: $name:ident, $name64:ident => $by_reference:expr) => {
        #[doc = concat!("Wraps `", $page, "`.")]
        ///
        /// # Safety
        #[doc = concat!("As `", $page, "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int,
            list: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            // SAFETY: the caller's own arguments.
            match unsafe { as_message(fd, list, count, offset, flags) } {
                Some((buffers, wait)) => $by_reference(fd, buffers, wait),
                // SAFETY: the caller's own arguments.
                None => unsafe { next::$name(fd, list, count, offset, flags) },
            }
        }

        #[doc = concat!("Wraps `", stringify!($name64), "`, which is `", stringify!($name), "`.")]
        ///
        /// # Safety
        #[doc = concat!("As `", $page, "`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name64(
            fd: c_int,
            list: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            // SAFETY: the caller's own arguments.
            unsafe { $name(fd, list, count, offset, flags) }
        }
    };
}

wrapped!("preadv2(2)": preadv2, preadv64v2 => receive);
wrapped!("pwritev2(2)": pwritev2, pwritev64v2 => send);

fn receive(fd: c_int, buffers: &[iovec], wait: c_int) -> ssize_t {
    recv::recv(fd, Pieces::unchecked(buffers, BufferUse::Write), wait, |done, most, more| {
        // SAFETY: the caller's buffers.
        unsafe { bytes::receive(fd, &mut message_of(buffers), done, most, wait | more) }
    })
}

fn send(fd: c_int, buffers: &[iovec], wait: c_int) -> ssize_t {
    send::send(fd, Pieces::unchecked(buffers, BufferUse::Read), wait, || {
        let message = message_of(buffers);
        // SAFETY: a local message that refers to the caller's buffers.
        unsafe { kernel::sendmsg(fd, &raw const message, wait) }
    })
}
