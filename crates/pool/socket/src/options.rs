//! Socket options that affect connections carried by reference.

use crate::table;
use libc::c_int;
use std::sync::atomic::Ordering;

/// Returns how many bytes can be received without waiting (`FIONREAD`); `None` if the socket has no area.
pub fn readable(fd: c_int) -> Option<c_int> {
    let socket = table::get(fd)?;
    let carried = socket.carried()?;
    Some(carried.readable().min(c_int::MAX as usize) as c_int)
}

/// Returns whether a descriptor is a Unix socket that has an area.
pub fn is_unix(fd: c_int) -> bool {
    table::get(fd).is_some_and(|socket| socket.has_area() && socket.is_unix())
}

/// Returns `ECONNRESET` if the peer of a Unix socket closed the connection with bytes unread, as the kernel would; otherwise `None`. Like
/// `SO_ERROR`, a call clears the error.
pub fn take_error(fd: c_int) -> Option<c_int> {
    let socket = table::get(fd)?;
    let carried = socket.carried()?;
    (carried.is_dead() && carried.is_reset()).then(|| {
        socket.description().reset.store(1, Ordering::Release);
        libc::ECONNRESET
    })
}

/// Returns whether only the kernel can do what a socket option asks for.
pub fn needs_kernel(level: c_int, name: c_int) -> bool {
    let of_socket = [
        libc::SO_RCVLOWAT,
        libc::SO_PASSCRED,
        libc::SO_PASSSEC,
        libc::SO_TIMESTAMP,
        libc::SO_TIMESTAMPNS,
        libc::SO_TIMESTAMPING,
        libc::SO_PEEK_OFF,
        libc::SO_ATTACH_FILTER,
        libc::SO_OOBINLINE,
    ];
    level == libc::SOL_SOCKET && of_socket.contains(&name)
        || level == libc::IPPROTO_TCP && [libc::TCP_ULP, libc::TCP_REPAIR].contains(&name)
}

/// Returns the value that the program set `TCP_NODELAY` to, if this library set another value in the kernel; `None` otherwise.
pub fn nodelay(fd: c_int) -> Option<c_int> {
    let socket = table::get(fd)?;
    let is_ours = socket.prompt.load(Ordering::Relaxed) != 0 && !socket.is_unix();
    is_ours.then(|| socket.nodelay.load(Ordering::Relaxed) as c_int)
}

/// Notes the value that the program sets `TCP_NODELAY` to. Returns false if the caller must pass the value on to the kernel.
pub fn set_nodelay(fd: c_int, value: c_int) -> bool {
    let is_ours = nodelay(fd).is_some();
    if is_ours && let Some(socket) = table::get(fd) {
        socket.nodelay.store(u32::from(value != 0), Ordering::Relaxed);
    }
    is_ours
}

/// Reads `SO_LINGER` and notes in the area whether closing this end will reset the connection, so that the other end knows.
pub fn note_linger(fd: c_int) {
    let Some(socket) = table::get(fd) else { return };
    let Some(carried) = socket.carried() else { return };
    // SAFETY: all zeros are a valid time.
    let mut value = unsafe { std::mem::zeroed::<libc::linger>() };
    let mut length = size_of_val(&value) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: the kernel writes at most `length` bytes.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut length) };
    let resets = value.l_onoff != 0 && value.l_linger == 0;
    carried.this_end().resets.store(u32::from(resets), Ordering::Release);
}

/// Number of the option `TCP_INQ`, and of the control message `TCP_CM_INQ`, which reports the number of bytes that are left.
pub const TCP_INQ: c_int = 36;

/// Notes whether a program wants to know how many bytes are left after each message.
pub fn set_inq(fd: c_int, is_wanted: bool) {
    if let Some(socket) = table::get(fd) {
        socket.description().inq.store(u32::from(is_wanted), Ordering::Relaxed);
    }
}

/// Writes the number of bytes that are left into the control data of a message that came through a ring, if the program asked for it.
/// `room` is the size of the program's buffer for control data.
///
/// # Safety
/// At least `room` bytes at `msg_control` are writable.
pub unsafe fn tell_inq(fd: c_int, message: &mut libc::msghdr, room: usize) {
    let Some(socket) = table::get(fd) else { return };
    if !socket.has_area()
        || socket.description().inq.load(Ordering::Relaxed) == 0
        || message.msg_control.is_null()
    {
        return;
    }
    let left = readable(fd).unwrap_or(0);
    // SAFETY: these functions only compute sums.
    let (space, length) = unsafe { (libc::CMSG_SPACE(4) as usize, libc::CMSG_LEN(4) as usize) };
    if room < length {
        message.msg_flags |= libc::MSG_CTRUNC;
        return;
    }
    let header = message.msg_control.cast::<libc::cmsghdr>();
    // SAFETY: there is room for a header and an `int`.
    unsafe {
        header.write_unaligned(libc::cmsghdr {
            cmsg_len: length as _,
            cmsg_level: libc::SOL_TCP,
            cmsg_type: TCP_INQ,
        });
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(left);
    }
    message.msg_controllen = space.min(room) as _;
}
