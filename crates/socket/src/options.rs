//! Options of sockets that concern what is carried by reference.

use crate::area::Look;
use crate::ready;
use crate::table;
use libc::c_int;

/// Returns the bytes that can be received without waiting (`FIONREAD`); none if the kernel knows.
pub fn readable(fd: c_int) -> Option<c_int> {
    let entry = table::get(fd)?;
    let link = entry.link()?;
    if !ready::carries_in(&entry, &link) {
        return None;
    }
    match link.inward.look() {
        Look::Bytes(bytes) => Some(bytes as c_int),
        Look::Empty => Some(0),
        Look::Ended | Look::Broken => None,
    }
}

/// Returns true if only the kernel can do what an option asks for.
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
        libc::SO_ZEROCOPY,
    ];
    level == libc::SOL_SOCKET && of_socket.contains(&name)
        || level == libc::IPPROTO_TCP && [libc::TCP_ULP, libc::TCP_REPAIR].contains(&name)
}
