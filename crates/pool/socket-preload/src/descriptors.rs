//! Wrappers of the calls that make, duplicate, configure and close descriptors.

use crate::next::{self, NextFunction};
use libc::{
    F_DUPFD, F_DUPFD_CLOEXEC, F_SETFL, FIONBIO, FIONREAD, O_ASYNC, O_NONBLOCK, SOCK_NONBLOCK, SOCK_STREAM,
    c_int, c_long, c_ulong, c_void, sockaddr, socklen_t,
};
use unrack_socket::memory::{self, BufferUse};
use unrack_socket::{close as ends, epoll, handover, has, is_wakeup, kernel, make, options, zerocopy};

/// Wraps `connect(2)`. It calls the next library's function, which may substitute another address.
///
/// # Safety
/// As `connect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's own arguments.
    let connected = unsafe { next::connect(fd, address, length) };
    if connected == 0 || kernel::errno() == libc::EINPROGRESS {
        make::connected(fd);
    }
    connected
}

/// Wraps `accept4(2)`.
///
/// # Safety
/// As `accept4(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's own arguments.
    let made = unsafe { next::accept4(fd, address, length, flags) };
    make::accepted(made, flags & SOCK_NONBLOCK != 0);
    made
}

/// Wraps `accept(2)`.
///
/// # Safety
/// As `accept(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's own arguments.
    let made = unsafe { next::accept(fd, address, length) };
    make::accepted(made, false);
    made
}

/// Wraps `socketpair(2)`.
///
/// # Safety
/// As `socketpair(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: the caller's own arguments.
    let made = unsafe { libc::syscall(libc::SYS_socketpair, domain, kind, protocol, pair) as c_int };
    if made == 0 && kind & 0xf == SOCK_STREAM {
        for i in 0..2 {
            // SAFETY: the kernel wrote two descriptors.
            make::accepted(unsafe { *pair.add(i) }, kind & SOCK_NONBLOCK != 0);
        }
    }
    made
}

/// Wraps `close(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn close(fd: c_int) -> c_int {
    if is_wakeup(fd) {
        // The program did not open this descriptor.
        return kernel::fail(libc::EBADF) as c_int;
    }
    ends::closing(fd);
    // SAFETY: only a plain number is passed.
    unsafe { next::close(fd) }
}

/// Wraps `close_range(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: u32, last: u32, flags: c_int) -> c_int {
    if first <= last && flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        ends::closing_range(first, last);
        return unrack_socket::while_still(|| close_around_wakeups(first, last, flags));
    }
    // SAFETY: only plain numbers are passed.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) as c_int }
}

/// Closes a range of descriptors, except those of this library.
fn close_around_wakeups(from: u32, last: u32, flags: c_int) -> c_int {
    let mut first = from;
    for own in unrack_socket::wakeups().filter(|own| (from..=last).contains(own)) {
        if first < own {
            // SAFETY: only plain numbers are passed.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, own - 1, flags) as c_int };
            if closed != 0 {
                return closed;
            }
        }
        first = own + 1;
    }
    if first > last {
        return 0;
    }
    // SAFETY: only plain numbers are passed.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) as c_int }
}

/// Wraps `closefrom(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: c_int) {
    close_range(first.max(0) as u32, u32::MAX, 0);
}

/// Wraps `shutdown(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    ends::shutting(fd, how);
    // SAFETY: only plain numbers are passed.
    unsafe { libc::syscall(libc::SYS_shutdown, fd, how) as c_int }
}

/// Wraps `dup(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: only a plain number is passed.
    let made = unsafe { libc::syscall(libc::SYS_dup, fd) as c_int };
    ends::duplicated(fd, made);
    made
}

/// Wraps `dup2(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if !is_wakeup(to) && ![fd, to].into_iter().any(|fd| has(fd) || epoll::is_set(fd)) {
        // SAFETY: only plain numbers are passed.
        return unsafe { next::dup2(fd, to) };
    }
    // SAFETY: only plain numbers are passed.
    let is_open = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0) } >= 0;
    if fd == to {
        return if is_open { to } else { kernel::fail(libc::EBADF) as c_int };
    }
    dup3(fd, to, 0)
}

/// Wraps `dup3(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: only plain numbers are passed.
    let is_open = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0) } >= 0;
    if is_wakeup(to) {
        // The number is in use, although the program cannot know that. `dup2(2)` documents `EBUSY` for a related case.
        return kernel::fail(libc::EBUSY) as c_int;
    }
    if is_open && fd != to && to >= 0 {
        ends::closing(to);
    }
    // SAFETY: only plain numbers are passed.
    let made = unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) as c_int };
    ends::duplicated(fd, made);
    made
}

/// Wraps `fcntl(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the caller's own arguments.
    let done = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) as c_int };
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => ends::duplicated(fd, done),
        F_SETFL if done == 0 => {
            ends::nonblocking(fd, argument & c_long::from(O_NONBLOCK) != 0);
            if argument & c_long::from(O_ASYNC) != 0 {
                ends::leave(fd);
            }
        }
        _ => {}
    }
    done
}

/// Wraps `fcntl64`, which is the same as `fcntl`.
#[unsafe(no_mangle)]
pub extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    fcntl(fd, command, argument)
}

/// Request of `ioctl(2)` for `SIGIO` signals, which the kernel sends only for bytes that it carries (`asm-generic/ioctls.h`).
const FIOASYNC: c_ulong = 0x5452;

/// Wraps `ioctl(2)`.
///
/// # Safety
/// As `ioctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    if has(fd)
        && memory::allows(BufferUse::Write, argument.cast(), size_of::<c_int>())
        && request == FIONREAD as c_ulong
        && let Some(bytes) = options::readable(fd)
    {
        // SAFETY: the caller's word.
        unsafe { *argument = bytes };
        return 0;
    }
    // SAFETY: the caller's own arguments.
    let done = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as c_int };
    if done == 0 && request == FIONBIO as c_ulong && has(fd) {
        // SAFETY: the caller's word, which the kernel has read.
        ends::nonblocking(fd, unsafe { *argument } != 0);
    }
    // SAFETY: the caller's word, which the kernel has read.
    if done == 0 && request == FIOASYNC && has(fd) && unsafe { *argument } != 0 {
        ends::leave(fd);
    }
    done
}

/// Wraps `setsockopt(2)`. If only the kernel can implement an option, the socket is left to the kernel.
///
/// # Safety
/// As `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if has(fd) && options::needs_kernel(level, name) {
        ends::leave(fd);
    }
    let is_nodelay = (level, name) == (libc::IPPROTO_TCP, libc::TCP_NODELAY);
    let is_number = length as usize >= size_of::<c_int>()
        && memory::allows(BufferUse::Read, value.cast(), size_of::<c_int>());
    if is_nodelay && has(fd) && is_number {
        // SAFETY: the caller's value, which was found readable.
        let value = unsafe { value.cast::<c_int>().read_unaligned() };
        if options::set_nodelay(fd, value) {
            return 0;
        }
    }
    // SAFETY: the caller's own arguments.
    let done = unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, length) as c_int };
    if done == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        options::note_linger(fd);
    }
    if done == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_ZEROCOPY) {
        zerocopy::ask_for(fd);
    }
    if done == 0 && (level, name) == (libc::IPPROTO_TCP, options::TCP_INQ) && is_number {
        // SAFETY: the caller's value, which was found readable.
        options::set_inq(fd, unsafe { value.cast::<c_int>().read_unaligned() } != 0);
    }
    done
}

/// Wraps `getsockopt(2)`. An option whose value this library changed is reported as the program set it.
///
/// # Safety
/// As `getsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's own arguments.
    let done = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, length) as c_int };
    if done == 0
        && has(fd)
        && (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
        // SAFETY: the kernel wrote the length and the value.
        && unsafe { *length as usize >= size_of::<c_int>() && value.cast::<c_int>().read_unaligned() == 0 }
        && let Some(error) = options::take_error(fd)
    {
        // SAFETY: the kernel wrote a value of this size there.
        unsafe { value.cast::<c_int>().write_unaligned(error) };
    }
    if done == 0
        && has(fd)
        && (level, name) == (libc::IPPROTO_TCP, libc::TCP_NODELAY)
        && let Some(nodelay) = options::nodelay(fd)
    {
        // SAFETY: the kernel wrote a value of this length there.
        unsafe {
            std::ptr::copy_nonoverlapping(
                nodelay.to_ne_bytes().as_ptr(),
                value.cast(),
                (*length as usize).min(4),
            )
        };
    }
    done
}

static FDOPEN: NextFunction = NextFunction::new(c"fdopen");

/// Wraps `fdopen(3)`. The socket is handed to the kernel, because the C library's streams do not call `read` through this library's
/// wrapper.
///
/// # Safety
/// As `fdopen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const libc::c_char) -> *mut libc::FILE {
    type Function = unsafe extern "C" fn(c_int, *const libc::c_char) -> *mut libc::FILE;
    let next = FDOPEN.get();
    if next.is_null() || !handover::take_back(fd) {
        kernel::fail(libc::ENOMEM);
        return std::ptr::null_mut();
    }
    // SAFETY: the C library's function of that name.
    unsafe { std::mem::transmute::<*mut c_void, Function>(next)(fd, mode) }
}

/// Wraps liburing's `io_uring_setup`.
///
/// # Safety
/// As `io_uring_setup(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_setup(entries: libc::c_uint, parameters: *mut c_void) -> c_int {
    handover::before_uring();
    // SAFETY: the caller's own arguments.
    unsafe { next::io_uring_setup(entries, parameters) }
}

/// Wraps liburing's `io_uring_queue_init`.
///
/// # Safety
/// As `io_uring_queue_init(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init(
    entries: libc::c_uint,
    ring: *mut c_void,
    flags: libc::c_uint,
) -> c_int {
    handover::before_uring();
    // SAFETY: the caller's own arguments.
    unsafe { next::io_uring_queue_init(entries, ring, flags) }
}

/// Wraps liburing's `io_uring_queue_init_params`.
///
/// # Safety
/// As `io_uring_queue_init_params(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn io_uring_queue_init_params(
    entries: libc::c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    handover::before_uring();
    // SAFETY: the caller's own arguments.
    unsafe { next::io_uring_queue_init_params(entries, ring, parameters) }
}

/// Wraps `munmap(2)`.
///
/// # Safety
/// As `munmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(place: *mut c_void, bytes: usize) -> c_int {
    memory::forget(place as usize, bytes);
    // SAFETY: the caller's own arguments.
    unsafe { libc::syscall(libc::SYS_munmap, place, bytes) as c_int }
}

/// Wraps `mprotect(2)`.
///
/// # Safety
/// As `mprotect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(place: *mut c_void, bytes: usize, rights: c_int) -> c_int {
    memory::forget(place as usize, bytes);
    // SAFETY: the caller's own arguments.
    unsafe { libc::syscall(libc::SYS_mprotect, place, bytes, rights) as c_int }
}
