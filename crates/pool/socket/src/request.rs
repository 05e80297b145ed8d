//! Sending one request to the broker and receiving its reply.

use crate::wire::{BYTES, Reply, Request};
use crate::{kernel, silence};
use libc::{c_int, sockaddr_un};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::socket;

/// Environment variable with the path of the broker's socket.
pub const SOCKET_VARIABLE: &str = "UNRACK_SOCKETS";
/// Longest wait for the broker.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the path of the broker's socket: from the environment, or the default path of this user.
pub fn path() -> PathBuf {
    match std::env::var_os(SOCKET_VARIABLE) {
        Some(path) => path.into(),
        None => socket::default_socket().with_file_name("sockets.sock"),
    }
}

/// Returns whether a trusted broker's socket existed when this process first looked for one.
pub(crate) fn has_broker() -> bool {
    broker().is_some()
}

/// Sends a request with a descriptor attached. Returns the reply and the descriptor attached to it, or `None` if the broker does not
/// answer.
pub(crate) fn send(request: Request, passed: c_int) -> Option<(Reply, Option<Descriptor>)> {
    if silence::lasts() {
        return None;
    }
    let begin = Instant::now();
    let answer = exchange(request, passed);
    if answer.is_none() && begin.elapsed() >= PATIENCE {
        silence::begin();
    } else if answer.is_some() {
        silence::end();
    }
    answer
}

fn exchange(request: Request, passed: c_int) -> Option<(Reply, Option<Descriptor>)> {
    let (path, address) = broker()?;
    let broker = Descriptor::connect(path, address)?;
    broker.send(&Request::Hello.encode(), None)?;
    if Reply::decode(&broker.recv()?.0)? != Reply::Ready {
        return None;
    }
    broker.send(&request.encode(), Some(passed))?;
    let (bytes, passed) = broker.recv()?;
    Some((Reply::decode(&bytes)?, passed))
}

/// Reason why the broker at the default path is not trusted, and therefore not used.
static UNTRUSTED: OnceLock<socket::Untrusted> = OnceLock::new();

/// Prints the reason why the broker is not trusted. It is printed once, at the first connection that could have been carried.
#[cold]
pub(crate) fn say_why_not() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(untrusted) = UNTRUSTED.get().filter(|_| !SAID.swap(true, Ordering::Relaxed)) {
        let before = kernel::errno();
        eprintln!("unrack sockets: no connection is carried: {untrusted}");
        kernel::fail(before);
    }
}

fn broker() -> Option<&'static (PathBuf, sockaddr_un)> {
    static BROKER: OnceLock<Option<(PathBuf, sockaddr_un)>> = OnceLock::new();
    BROKER
        .get_or_init(|| {
            let path = path();
            let address = to_address(&path).filter(|_| path.exists())?;
            if let Err(untrusted) = socket::check_folder(&path) {
                let _ = UNTRUSTED.set(untrusted);
                return None;
            }
            Some((path, address))
        })
        .as_ref()
}

fn to_address(path: &Path) -> Option<sockaddr_un> {
    // SAFETY: all zeros are a valid address.
    let mut address = unsafe { std::mem::zeroed::<sockaddr_un>() };
    address.sun_family = libc::AF_UNIX as _;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() || bytes.is_empty() {
        return None;
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    Some(address)
}

/// A descriptor that this library owns. Dropping it closes it.
pub(crate) struct Descriptor(pub(crate) c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        kernel::close(self.0);
    }
}

/// Control message that passes one descriptor.
#[repr(C)]
struct Beside {
    header: libc::cmsghdr,
    fd: c_int,
    _rest: c_int,
}

impl Beside {
    const LENGTH: usize = size_of::<libc::cmsghdr>() + size_of::<c_int>();
}

impl Descriptor {
    fn connect(path: &Path, to: &sockaddr_un) -> Option<Descriptor> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: only plain numbers are passed.
        let made = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
        let made = (made >= 0).then(|| Descriptor(made as c_int))?;
        // The timeout keeps a stopped broker from stopping the programs that ask it.
        let most = libc::timeval { tv_sec: PATIENCE.as_secs() as _, tv_usec: 0 };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            // SAFETY: the kernel reads a local structure.
            unsafe {
                libc::syscall(
                    libc::SYS_setsockopt,
                    made.0,
                    libc::SOL_SOCKET,
                    option,
                    &raw const most,
                    size_of_val(&most),
                )
            };
        }
        // SAFETY: the address is a structure that this function borrows.
        let connected =
            unsafe { libc::syscall(libc::SYS_connect, made.0, &raw const *to, size_of::<sockaddr_un>()) };
        // SAFETY: the descriptor is open for as long as `made`.
        let borrowed = unsafe { BorrowedFd::borrow_raw(made.0) };
        let is_trusted = || socket::check_peer(path, borrowed).is_ok();
        (connected == 0 && is_trusted()).then_some(made)
    }

    fn send(&self, bytes: &[u8], passed: Option<c_int>) -> Option<()> {
        let mut beside = Beside {
            header: libc::cmsghdr {
                cmsg_len: Beside::LENGTH as _,
                cmsg_level: libc::SOL_SOCKET,
                cmsg_type: libc::SCM_RIGHTS,
            },
            fd: passed.unwrap_or(-1),
            _rest: 0,
        };
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all zeros are a valid, empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        if passed.is_some() {
            (message.msg_control, message.msg_controllen) =
                ((&raw mut beside).cast(), size_of::<Beside>() as _);
        }
        // SAFETY: the message refers to local structures and to borrowed bytes.
        let sent = unsafe { kernel::sendmsg(self.0, &raw const message, libc::MSG_NOSIGNAL) };
        (sent == bytes.len() as isize).then_some(())
    }

    fn recv(&self) -> Option<([u8; BYTES], Option<Descriptor>)> {
        let mut bytes = [0; BYTES];
        // SAFETY: all zeros are a valid, empty header.
        let mut beside = unsafe { std::mem::zeroed::<Beside>() };
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
        // SAFETY: all zeros are a valid, empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Beside>() as _);
        // SAFETY: the message refers to local structures only.
        let got = unsafe { kernel::recvmsg(self.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        let has_one = message.msg_controllen as usize >= Beside::LENGTH
            && (beside.header.cmsg_level, beside.header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let passed = has_one.then(|| Descriptor(beside.fd));
        (got == BYTES as isize).then_some((bytes, passed))
    }
}
