//! Additional calls of this library (`unrack_sockets.h`), which read and write bytes in place, without a copy.

use libc::{c_int, c_void, ssize_t};
use unrack_socket::kernel::fail;
use unrack_socket::{recv, send};

/// Sets `bytes` to the address of the bytes that can be received, and waits for bytes as `recv(2)` does. Returns their number, 0 at the end
/// of the stream, or -1; `errno` is `EOPNOTSUPP` while the kernel carries the connection. The bytes stay there until [`unrack_recv_done`].
///
/// # Safety
/// `bytes` points to a pointer. The other end can change bytes that it has sent, so the caller must trust it, or copy the bytes before
/// checking them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unrack_recv_ref(fd: c_int, bytes: *mut *const c_void, flags: c_int) -> ssize_t {
    let mut taker = |place: *const u8, there: usize| {
        // SAFETY: the caller's pointer.
        unsafe { *bytes = place.cast() };
        there as ssize_t
    };
    let refuse = |_: usize, _: usize, _: c_int| fail(libc::EOPNOTSUPP);
    recv::take(fd, usize::MAX, flags | libc::MSG_PEEK, &mut taker, refuse)
}

/// Gives back the first `bytes` bytes that [`unrack_recv_ref`] returned.
#[unsafe(no_mangle)]
pub extern "C" fn unrack_recv_done(fd: c_int, bytes: usize) {
    recv::discard(fd, bytes);
}

/// Calls a function of the program that writes at most `most` bytes directly to the place where the other end will read them. The function
/// gets `context`, the address and the room. It returns how many bytes it wrote, or 0 if there are no more. This call returns the same as
/// `send(2)`, or -1 with `EOPNOTSUPP` while the kernel carries the connection.
///
/// # Safety
/// `filler` writes no more bytes than there is room for, and makes no call on the same socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unrack_send_ref(
    fd: c_int,
    most: usize,
    filler: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> ssize_t>,
    context: *mut c_void,
    flags: c_int,
) -> ssize_t {
    let Some(filler) = filler else { return fail(libc::EFAULT) };
    // SAFETY: the caller's function.
    let mut filler = |place: *mut u8, room: usize| unsafe { filler(context, place.cast(), room) };
    send::fill(fd, most, flags, &mut filler, || fail(libc::EOPNOTSUPP))
}
