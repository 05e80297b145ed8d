//! `MSG_ZEROCOPY`: reports to a program that its buffers can be reused.
//!
//! The kernel numbers the calls with this flag, and reports ranges of numbers on the socket's error queue once it no longer needs the
//! buffers (Linux, `Documentation/networking/msg_zerocopy.rst`). Bytes that went into a ring were copied once, as the kernel does with
//! bytes that stay on the machine. Therefore they are reported immediately, and as copied. The calls into the ring are numbered after those
//! that went through the kernel before the ring, and the kernel's later calls are numbered after those into the ring.

pub(crate) mod calls;

use crate::kernel::{self, fail};
use crate::table;
use calls::ZerocopyCounts;
use libc::{c_int, cmsghdr, msghdr, sock_extended_err};

/// Origin of a report (`SO_EE_ORIGIN_ZEROCOPY`).
const ORIGIN: u8 = 5;
/// Code of a report: the bytes were copied (`SO_EE_CODE_ZEROCOPY_COPIED`).
const COPIED: u8 = 1;
/// Size of the address that follows a report, in bytes: for IPv4, and for IPv6.
const ADDRESS: (usize, usize) = (size_of::<libc::sockaddr_in>(), size_of::<libc::sockaddr_in6>());

/// Notes that the program set `SO_ZEROCOPY`.
pub fn ask_for(fd: c_int) {
    if let Some(socket) = table::get(fd) {
        socket.description().zerocopy.turn_on();
    }
}

/// Receives a report from the error queue, like `recvmsg(2)` with `MSG_ERRQUEUE`.
///
/// # Safety
/// As `recvmsg(2)`.
pub unsafe fn report(fd: c_int, message: &mut msghdr, flags: c_int) -> isize {
    let room = message.msg_controllen;
    // SAFETY: the caller's message.
    let got = unsafe { kernel::recvmsg(fd, message, flags) };
    let Some(socket) = table::get(fd) else { return got };
    let calls = &socket.description().zerocopy;
    if got >= 0 {
        // SAFETY: the kernel filled the message.
        unsafe { renumber(message, calls) };
        return got;
    }
    if kernel::errno() != libc::EAGAIN || !calls.has_report() {
        return got;
    }
    let Some((first, last)) = calls.take_report() else { return fail(libc::EAGAIN) };
    message.msg_controllen = room;
    // SAFETY: the caller's message, with the room that it had.
    unsafe { write(fd, message, first, last) };
    0
}

/// Shifts the call numbers in a report of the kernel by the number of calls that went into the ring.
///
/// # Safety
/// The kernel has filled the message.
unsafe fn renumber(message: &mut msghdr, calls: &ZerocopyCounts) {
    let (before, ring) = (calls.before_ring(), calls.by_ring());
    // SAFETY: the C library steps within the message.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: the C library returned a header within the message.
        let (found, data) = unsafe { (header.read_unaligned(), libc::CMSG_DATA(header)) };
        let kinds = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
        if kinds.contains(&(found.cmsg_level, found.cmsg_type)) {
            let place = data.cast::<sock_extended_err>();
            // SAFETY: the kernel writes such a structure for this kind.
            let mut error = unsafe { place.read_unaligned() };
            if error.ee_origin == ORIGIN && error.ee_info >= before {
                error.ee_info = error.ee_info.wrapping_add(ring);
                error.ee_data = error.ee_data.wrapping_add(ring);
                // SAFETY: where it was read.
                unsafe { place.write_unaligned(error) };
            }
        }
        // SAFETY: the C library steps within the message.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

/// Writes a report of the calls from `first` to `last`, if there is room for it.
///
/// # Safety
/// `msg_controllen` bytes at `msg_control` are writable.
unsafe fn write(fd: c_int, message: &mut msghdr, first: u32, last: u32) {
    let is_six = kernel::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6);
    let (level, kind) =
        if is_six { (libc::SOL_IPV6, libc::IPV6_RECVERR) } else { (libc::SOL_IP, libc::IP_RECVERR) };
    let bytes = size_of::<sock_extended_err>() + if is_six { ADDRESS.1 } else { ADDRESS.0 };
    // SAFETY: this function only computes a sum.
    let (space, length) = unsafe { (libc::CMSG_SPACE(bytes as u32), libc::CMSG_LEN(bytes as u32)) };
    (message.msg_namelen, message.msg_flags) = (0, libc::MSG_ERRQUEUE);
    if message.msg_control.is_null() || message.msg_controllen < length as _ {
        message.msg_flags |= libc::MSG_CTRUNC;
        message.msg_controllen = 0;
        return;
    }
    let error = sock_extended_err {
        ee_errno: 0,
        ee_origin: ORIGIN,
        ee_type: 0,
        ee_code: COPIED,
        ee_pad: 0,
        ee_info: first,
        ee_data: last,
    };
    let header = message.msg_control.cast::<cmsghdr>();
    // SAFETY: there is room for a header, the structure and the address, which is empty.
    unsafe {
        header.write_unaligned(cmsghdr { cmsg_len: length as _, cmsg_level: level, cmsg_type: kind });
        let data = libc::CMSG_DATA(header);
        data.write_bytes(0, bytes);
        data.cast::<sock_extended_err>().write_unaligned(error);
    }
    message.msg_controllen = message.msg_controllen.min(space as _);
}
