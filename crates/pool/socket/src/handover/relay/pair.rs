//! The connection that replaces a relayed one. It is of the same family and has the options that the program set.

use crate::kernel;
use crate::table::{Entry, Socket};
use libc::{AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET, c_int, sockaddr, sockaddr_storage, socklen_t};
use std::sync::atomic::Ordering;

/// Size of the kernel's buffers in each direction of the new connection. Bytes that the program leaves in them are put back into the ring.
const BYTES: c_int = 64 << 10;

/// Makes a connection and returns the program's end and the relay's end. The program's end gets the options of `socket`.
pub(super) fn make(socket: &Socket) -> Option<(c_int, c_int)> {
    let fd = socket.fd;
    let family = kernel::option(fd, SOL_SOCKET, libc::SO_DOMAIN)?;
    let (near, far) = (family != AF_UNIX).then(|| internet(fd, family)).flatten().or_else(unix)?;
    kernel::set_option(far, SOL_SOCKET, libc::SO_SNDBUF, BYTES);
    kernel::set_option(near, SOL_SOCKET, libc::SO_RCVBUF, BYTES);
    kernel::set_option(far, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    copy_options(socket, fd, near);
    Some((near, far))
}

fn copy_options(entry: &Entry, from: c_int, to: c_int) {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_LINGER] {
        copy_option(from, to, SOL_SOCKET, name);
    }
    for name in [libc::SO_KEEPALIVE, libc::SO_PASSCRED] {
        if let Some(value @ 1..) = kernel::option(from, SOL_SOCKET, name) {
            kernel::set_option(to, SOL_SOCKET, name, value);
        }
    }
    let nodelay = match entry.prompt.load(Ordering::Relaxed) {
        0 => kernel::option(from, libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap_or(0),
        _ => entry.nodelay.load(Ordering::Relaxed) as c_int,
    };
    kernel::set_option(to, libc::IPPROTO_TCP, libc::TCP_NODELAY, nodelay);
    if kernel::is_nonblocking(from) {
        // SAFETY: only plain numbers are passed.
        unsafe { libc::syscall(libc::SYS_fcntl, to, libc::F_SETFL, libc::O_NONBLOCK) };
    }
}

/// Copies an option that has at most two words.
fn copy_option(from: c_int, to: c_int, level: c_int, name: c_int) {
    let mut value = [0_u64; 2];
    let mut length = size_of_val(&value) as socklen_t;
    let place = value.as_mut_ptr();
    // SAFETY: the kernel writes at most `length` bytes, and reads the same number.
    unsafe {
        if libc::syscall(libc::SYS_getsockopt, from, level, name, place, &raw mut length) == 0 {
            libc::syscall(libc::SYS_setsockopt, to, level, name, place, length);
        }
    }
}

/// Makes the descriptor `to` refer to the same socket as `from`. It keeps its close-on-exec flag.
pub(super) fn place(from: c_int, to: c_int) {
    // SAFETY: only plain numbers are passed.
    unsafe {
        let flags = libc::syscall(libc::SYS_fcntl, to, libc::F_GETFD, 0);
        let is_marked = flags >= 0 && flags as c_int & libc::FD_CLOEXEC != 0;
        libc::syscall(libc::SYS_dup3, from, to, if is_marked { libc::O_CLOEXEC } else { 0 });
    }
}

/// Returns the number of bytes that the other end of a connection has not received yet.
pub(super) fn unsent(fd: c_int) -> c_int {
    let mut bytes: c_int = 0;
    // SAFETY: the kernel writes one `int`.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ, &raw mut bytes) };
    bytes
}

fn unix() -> Option<(c_int, c_int)> {
    let mut pair = [-1; 2];
    // SAFETY: the kernel writes two descriptors.
    let made = unsafe {
        libc::syscall(libc::SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.as_mut_ptr())
    };
    (made == 0).then_some((pair[0], pair[1]))
}

/// Makes a connection within this host, both of whose ends have the socket's own address.
fn internet(fd: c_int, family: c_int) -> Option<(c_int, c_int)> {
    let (mut own, length) = kernel::name(fd, false)?;
    clear_port(&mut own);
    let listener = socket(family)?;
    let far = socket(family);
    let made = far.and_then(|far| connect(listener, far, &own, length));
    kernel::close(listener);
    if made.is_none()
        && let Some(far) = far
    {
        kernel::close(far);
    }
    made.zip(far)
}

/// Connects `far` to a listener at `own`. Returns the accepted end.
fn connect(listener: c_int, far: c_int, own: &sockaddr_storage, length: usize) -> Option<c_int> {
    let call = |number, fd: c_int, address: *const sockaddr_storage, length: usize| {
        // SAFETY: an address that this function borrows.
        unsafe { libc::syscall(number, fd, address, length) == 0 }
    };
    // SAFETY: only plain numbers are passed.
    let listens = call(libc::SYS_bind, listener, own, length)
        && unsafe { libc::syscall(libc::SYS_listen, listener, 1) == 0 };
    let (at, length) = listens.then(|| kernel::name(listener, false)).flatten()?;
    if !call(libc::SYS_connect, far, &raw const at, length) {
        return None;
    }
    let none = std::ptr::null_mut::<sockaddr>();
    // SAFETY: the kernel writes no address, because none is requested.
    let near = unsafe { libc::syscall(libc::SYS_accept4, listener, none, none, SOCK_CLOEXEC) };
    let near = (near >= 0).then_some(near as c_int)?;
    // Another process may have connected first.
    if is_same(&kernel::name(near, true)?, &kernel::name(far, false)?) {
        return Some(near);
    }
    kernel::close(near);
    None
}

fn socket(family: c_int) -> Option<c_int> {
    // SAFETY: only plain numbers are passed.
    let made = unsafe { libc::syscall(libc::SYS_socket, family, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    (made >= 0).then_some(made as c_int)
}

fn clear_port(address: &mut sockaddr_storage) {
    let place: *mut sockaddr_storage = address;
    match c_int::from(address.ss_family) {
        // SAFETY: the address is of this family, and the structure has room for any address.
        libc::AF_INET => unsafe { (*place.cast::<libc::sockaddr_in>()).sin_port = 0 },
        // SAFETY: the address is of this family, and the structure has room for any address.
        libc::AF_INET6 => unsafe { (*place.cast::<libc::sockaddr_in6>()).sin6_port = 0 },
        _ => {}
    }
}

fn is_same(one: &(sockaddr_storage, usize), other: &(sockaddr_storage, usize)) -> bool {
    let bytes = |address: &(sockaddr_storage, usize)| {
        // SAFETY: the kernel wrote this number of bytes, into a structure that has room for any address.
        unsafe { std::slice::from_raw_parts((&raw const address.0).cast::<u8>(), address.1) }.to_vec()
    };
    bytes(one) == bytes(other)
}
