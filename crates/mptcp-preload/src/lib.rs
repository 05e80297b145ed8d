//! Turns the TCP sockets of an unmodified program into MPTCP sockets (RFC 8684), which use all NICs of a rack.
//!
//! Loaded by `unrack rack exec` through `LD_PRELOAD`. It stands in front of `socket` only: an MPTCP socket is used like
//! one of TCP, and talks plain TCP to a peer that knows no better. Programs that call the kernel themselves, as those
//! written in Go do, keep TCP. A server whose listening socket is closed as soon as it has its connection keeps one
//! path: the kernel takes further ones only where somebody still listens.

use libc::{AF_INET, AF_INET6, IPPROTO_MPTCP, IPPROTO_TCP, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, c_int};

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let is_stream = kind & !(SOCK_CLOEXEC | SOCK_NONBLOCK) == SOCK_STREAM;
    if matches!(domain, AF_INET | AF_INET6) && is_stream && matches!(protocol, 0 | IPPROTO_TCP) {
        let made = make(domain, kind, IPPROTO_MPTCP);
        if made >= 0 {
            return made;
        }
    }
    make(domain, kind, protocol)
}

fn make(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: plain numbers; the kernel answers with a descriptor or an error, which `syscall` puts into errno.
    unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) as c_int }
}
