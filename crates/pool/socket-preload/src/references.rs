//! Interface of this library's own (`unrack_sockets.h`): bytes where they lie, without a copy.

use libc::{c_int, c_void, ssize_t};
use unrack_socket::kernel::fail;
use unrack_socket::{recv, send};

/// Has `bytes` point to what can be received, waiting for it as `recv(2)` does. Returns how many bytes lie there, 0 at the end,
/// or -1: `EOPNOTSUPP` while the kernel carries the connection. They stay until [`unrack_recv_done`].
///
/// # Safety
/// `bytes` points to a pointer. The other end can change bytes that it has sent, so they are checked after they were copied, or
/// trusted.
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

/// Gives back so many bytes of those that [`unrack_recv_ref`] pointed to.
#[unsafe(no_mangle)]
pub extern "C" fn unrack_recv_done(fd: c_int, bytes: usize) {
    recv::discard(fd, bytes);
}

/// Has a function of the program's put bytes where the other end will find them, at most `most`. It gets `context`, the address
/// and the room, and returns how many it put there; 0 if there are no more. Returns as `send(2)` does; -1 and `EOPNOTSUPP` while
/// the kernel carries the connection.
///
/// # Safety
/// `filler` writes no more than there is room, and makes no call on the same socket.
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
