//! The C library's own functions, which this library's wrappers replace.
//!
//! A call that does not concern a carried socket is passed to them rather than to the kernel, because a thread can be cancelled in them
//! (`pthread_cancel(3)`). For the same reason the wrappers let a forced unwinding pass through. The functions are looked up when this
//! library is initialised. An earlier call goes to the kernel, because the lookup may allocate, and the caller may itself be an allocator.

use libc::{
    c_int, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, pollfd, sigset_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library that has it.
pub(crate) struct NextFunction {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl NextFunction {
    pub(crate) const fn new(name: &'static CStr) -> NextFunction {
        NextFunction { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Looks the function up, unless it is already known. Returns its address; null if no library has it.
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.known();
        if !found.is_null() {
            return found;
        }
        // SAFETY: a name that ends in zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Release);
        found
    }

    /// Returns the function's address; null if it has not been looked up.
    fn known(&self) -> *mut c_void {
        self.found.load(Ordering::Acquire)
    }
}

/// Defines functions that call the next library's function of the same name, or make the system call as long as that function has not been
/// looked up.
macro_rules! calls {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, or $number:expr;)*) => {
        #[allow(non_upper_case_globals)]
        mod found {
            use super::*;
            $(pub(super) static $name: NextFunction = NextFunction::new(
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                }
            );)*
        }

        /// Looks all functions up.
        pub(crate) fn look_up() {
            $(found::$name.get();)*
        }

        $(
            /// Calls the C library's function of this name.
            ///
            /// # Safety
            /// As that function.
            pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
                let next = found::$name.known();
                if next.is_null() {
                    // SAFETY: the caller's own arguments.
                    return unsafe { libc::syscall($number, $($argument),*) as $result };
                }
                type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;
                // SAFETY: the C library's function of that name.
                unsafe { std::mem::transmute::<*mut c_void, Function>(next)($($argument),*) }
            }
        )*
    };
}

/// Numbers of system calls that newer architectures lack. There the C library uses other system calls instead.
#[cfg(target_arch = "x86_64")]
mod old {
    pub(super) use libc::{SYS_dup2, SYS_epoll_wait, SYS_poll, SYS_select};
}
#[cfg(not(target_arch = "x86_64"))]
#[allow(non_upper_case_globals)]
mod old {
    pub(super) const SYS_dup2: libc::c_long = NONE;
    pub(super) const SYS_epoll_wait: libc::c_long = NONE;
    pub(super) const SYS_poll: libc::c_long = NONE;
    pub(super) const SYS_select: libc::c_long = NONE;
    use super::NONE;
}
/// A number that no system call has.
const NONE: libc::c_long = -1;

calls! {
    read(fd: c_int, to: *mut c_void, bytes: usize) -> ssize_t, or libc::SYS_read;
    readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t, or libc::SYS_readv;
    preadv2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t, or NONE;
    pwritev2(fd: c_int, list: *const iovec, count: c_int, offset: i64, flags: c_int) -> ssize_t, or NONE;
    recvfrom(fd: c_int, to: *mut c_void, bytes: usize, flags: c_int, from: *mut sockaddr, length: *mut socklen_t)
        -> ssize_t, or libc::SYS_recvfrom;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, or libc::SYS_recvmsg;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: u32, flags: c_int, timeout: *mut timespec) -> c_int,
        or libc::SYS_recvmmsg;
    write(fd: c_int, from: *const c_void, bytes: usize) -> ssize_t, or libc::SYS_write;
    writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t, or libc::SYS_writev;
    sendto(fd: c_int, from: *const c_void, bytes: usize, flags: c_int, to: *const sockaddr, length: socklen_t)
        -> ssize_t, or libc::SYS_sendto;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, or libc::SYS_sendmsg;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int, or libc::SYS_sendmmsg;
    accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int, or libc::SYS_accept4;
    accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, or libc::SYS_accept;
    dup2(fd: c_int, to: c_int) -> c_int, or old::SYS_dup2;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, or libc::SYS_connect;
    poll(fds: *mut pollfd, count: c_ulong, most: c_int) -> c_int, or old::SYS_poll;
    ppoll(fds: *mut pollfd, count: c_ulong, most: *const timespec, mask: *const sigset_t) -> c_int, or libc::SYS_ppoll;
    select(count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, most: *mut timeval) -> c_int,
        or old::SYS_select;
    pselect(
        count: c_int, reads: *mut fd_set, writes: *mut fd_set, others: *mut fd_set, most: *const timespec,
        mask: *const sigset_t
    ) -> c_int, or libc::SYS_pselect6;
    epoll_wait(set: c_int, events: *mut epoll_event, room: c_int, most: c_int) -> c_int, or old::SYS_epoll_wait;
    epoll_pwait(set: c_int, events: *mut epoll_event, room: c_int, most: c_int, mask: *const sigset_t) -> c_int,
        or libc::SYS_epoll_pwait;
    epoll_pwait2(set: c_int, events: *mut epoll_event, room: c_int, most: *const timespec, mask: *const sigset_t) -> c_int,
        or libc::SYS_epoll_pwait2;
    close(fd: c_int) -> c_int, or libc::SYS_close;
    splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, bytes: usize, flags: libc::c_uint)
        -> ssize_t, or libc::SYS_splice;
    io_uring_setup(entries: libc::c_uint, parameters: *mut c_void) -> c_int, or libc::SYS_io_uring_setup;
    io_uring_queue_init(entries: libc::c_uint, ring: *mut c_void, flags: libc::c_uint) -> c_int, or NONE;
    io_uring_queue_init_params(entries: libc::c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int, or NONE;
}
