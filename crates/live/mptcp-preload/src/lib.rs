//! Preload library that makes the TCP sockets of an unmodified program MPTCP sockets (RFC 8684), which use all NICs of a rack. It is a
//! crate because programs load it as a shared library.
//!
//! `unrack rack exec` loads the library through `LD_PRELOAD`. It wraps two calls:
//!
//! - `socket`: an MPTCP socket is used like a TCP socket, and speaks plain TCP to a peer without MPTCP.
//! - `connect`: a host of a rack has one address per NIC, and this wrapper uses them in turn. Otherwise all connections would prefer the
//!   NIC whose address the program uses, because the kernel opens the first subflow of a connection to this address, and leaves most of a
//!   short transfer there.
//!
//! Programs that call the kernel directly, such as those written in Go, keep TCP and the first NIC. A server that closes its listening
//! socket once it has its connection keeps one path, because the kernel accepts further subflows only while a socket listens.

use libc::{
    AF_INET, AF_INET6, IPPROTO_MPTCP, IPPROTO_TCP, SO_TYPE, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
    SOL_SOCKET, c_int, sockaddr, sockaddr_in, socklen_t,
};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Wraps `socket(2)`: makes an MPTCP socket instead of a TCP socket, if the kernel can.
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

/// Wraps `connect(2)`: connects to the next NIC if the address is that of a host of a rack.
///
/// # Safety
/// As `connect(2)`: `length` bytes are readable at `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if !address.is_null() && length as usize >= size_of::<sockaddr_in>() {
        // SAFETY: `length` bytes are there, and any bytes are a valid `sockaddr_in`; the read does not require alignment.
        let mut to = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
        if c_int::from(to.sin_family) == AF_INET && is_free_stream(socket) {
            to.sin_addr.s_addr = u32::from_ne_bytes(next_nic(to.sin_addr.s_addr.to_ne_bytes(), nics()));
            // SAFETY: a local structure, with its size.
            return unsafe {
                connect_to(socket, (&raw const to).cast(), size_of::<sockaddr_in>() as socklen_t)
            };
        }
    }
    // SAFETY: the caller's own arguments.
    unsafe { connect_to(socket, address, length) }
}

/// Connects through the kernel, without a wrapper.
///
/// # Safety
/// As `connect(2)`.
unsafe fn connect_to(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the kernel reads `length` bytes, or answers with an error, which `syscall` puts into errno.
    unsafe { libc::syscall(libc::SYS_connect, socket, address, length) as c_int }
}

/// Returns whether this is a stream socket whose local address the program has not chosen. Choosing the address would choose the NIC.
fn is_free_stream(socket: c_int) -> bool {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `kind`.
    let known =
        unsafe { libc::getsockopt(socket, SOL_SOCKET, SO_TYPE, (&raw mut kind).cast(), &raw mut length) };
    // SAFETY: all zeros are a valid `sockaddr_in`.
    let mut own = unsafe { std::mem::zeroed::<sockaddr_in>() };
    let mut length = size_of::<sockaddr_in>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `own`.
    let named = unsafe { libc::getsockname(socket, (&raw mut own).cast(), &raw mut length) };
    known == 0 && kind == SOCK_STREAM && named == 0 && own.sin_addr.s_addr == 0
}

/// Returns the number of NICs per host, which `unrack rack exec` sets in the environment; 1 if it is not set.
fn nics() -> u8 {
    static NICS: OnceLock<u8> = OnceLock::new();
    *NICS.get_or_init(|| std::env::var("UNRACK_NICS").ok().and_then(|nics| nics.parse().ok()).unwrap_or(1))
}

/// Returns the address of the same host at the next NIC. Hosts of racks are 10.rack.NIC.host, and .254 is a router.
fn next_nic(address: [u8; 4], nics: u8) -> [u8; 4] {
    static TURN: AtomicU8 = AtomicU8::new(0);
    let [10, rack, nic, host @ 1..254] = address else { return address };
    if nic >= nics {
        return address;
    }
    // The process id makes different programs begin at different NICs.
    let turn = TURN.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() as u8);
    [10, rack, turn % nics, host]
}
