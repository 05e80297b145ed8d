//! Requests to the broker, once a connection has shown that it lasts.
//!
//! A connection begins in the kernel. After some calls its ends ask the broker, each for itself: whoever is second has the
//! area at once, the first when it asks again. So short connections cost nothing, and nothing is sent to a peer that does
//! not have this library.

use crate::area::{Map, Unmappable};
use crate::kernel;
use crate::table::Entry;
use crate::wire::{BYTES, Reply, Request};
use libc::{c_int, sockaddr_un};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Environment variable with the broker's socket.
pub const SOCKET_VARIABLE: &str = "UNRACK_SOCKETS";
/// Environment variable with the number of calls after which a connection asks.
pub const AFTER_VARIABLE: &str = "UNRACK_SOCKETS_AFTER";
/// Calls after which a connection asks the broker.
const AFTER: u32 = 16;
/// Number of calls from which on a connection asks no more.
const LAST: u32 = 1 << 16;

/// Returns the number of calls after which a new connection asks; `u32::MAX` if there is no broker.
pub(crate) fn first() -> u32 {
    static FIRST: OnceLock<u32> = OnceLock::new();
    *FIRST.get_or_init(|| {
        let after = std::env::var(AFTER_VARIABLE).ok().and_then(|after| after.parse().ok());
        if address().is_some() { after.unwrap_or(AFTER).clamp(1, LAST) } else { u32::MAX }
    })
}

/// Returns the broker's socket: the environment's, or this user's.
pub fn path() -> PathBuf {
    match std::env::var_os(SOCKET_VARIABLE) {
        Some(path) => path.into(),
        None => unrack_pool::socket::default_socket().with_file_name("sockets.sock"),
    }
}

fn address() -> Option<&'static sockaddr_un> {
    static ADDRESS: OnceLock<Option<sockaddr_un>> = OnceLock::new();
    ADDRESS.get_or_init(|| to_address(&path()).filter(|_| path().exists())).as_ref()
}

fn to_address(path: &std::path::Path) -> Option<sockaddr_un> {
    // SAFETY: all zeros are an address.
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

/// Counts a call, and asks the broker when it is time.
#[inline]
pub(crate) fn count(entry: &Entry, fd: c_int) {
    let description = entry.description();
    let calls = description.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let is_joined_elsewhere = description.joined.load(Ordering::Relaxed) != 0;
    if (calls >= description.ask_at.load(Ordering::Relaxed) || is_joined_elsewhere) && entry.link().is_none()
    {
        ask(entry, fd, calls);
    }
}

#[cold]
fn ask(entry: &Entry, fd: c_int, calls: u32) {
    let description = entry.description();
    // Each further request after twice as many calls: a peer may never ask.
    let next = if calls >= LAST { u32::MAX } else { calls.saturating_mul(2).max(calls + 1) };
    description.ask_at.store(next, Ordering::Relaxed);
    let before = kernel::errno();
    let request = describe(fd);
    match request.and_then(|request| send_request(fd, request)) {
        Some((Reply::Area(end), Some(map))) => {
            entry.join(map, end as usize, request.is_some_and(|request| request.own != 0));
            crate::epoll::joined(fd);
        }
        Some((Reply::NotYet, _)) => {}
        _ => stay(entry, fd),
    }
    kernel::fail(before);
}

/// Asks the broker for an area that was handed out before, and receives what is in it. Afterwards the kernel carries: other
/// processes may have the socket as well, and share no locks with this one.
pub(crate) fn again(fd: c_int) {
    let Some(request) = describe(fd) else { return };
    if let Some((Reply::Area(end), Some(map))) = send_request(fd, Request { again: true, ..request }) {
        crate::table::insert(fd, kernel::is_nonblocking(fd), u32::MAX);
        match crate::table::get(fd) {
            Some(entry) => {
                entry.is_shared.store(1, Ordering::Relaxed);
                entry.join(map, end as usize, request.own != 0);
                if let Some(link) = entry.link() {
                    crate::send::leave(&entry, &link, fd);
                }
            }
            None => map.unmap(),
        }
    }
}

/// Leaves a socket to the kernel, for good.
fn stay(entry: &Entry, fd: c_int) {
    entry.description().ask_at.store(u32::MAX, Ordering::Relaxed);
    crate::table::remove(fd);
}

/// Asks the broker for the area of a connected socket.
fn send_request(fd: c_int, request: Request) -> Option<(Reply, Option<Map>)> {
    let broker = Descriptor::connect(address()?)?;
    broker.send(&request.encode(), fd)?;
    let (bytes, passed) = broker.recv()?;
    match Reply::decode(&bytes)? {
        Reply::Area(end) => match Map::open(passed?.0) {
            Ok(map) => Some((Reply::Area(end), Some(map))),
            Err(Unmappable::NotAnArea | Unmappable::Kernel) => Some((Reply::Never, None)),
        },
        other => Some((other, None)),
    }
}

/// Describes a socket to the broker, if it can be carried at all.
fn describe(fd: c_int) -> Option<Request> {
    if kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_STREAM {
        return None;
    }
    match kernel::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET | libc::AF_INET6 => Some(Request { own: 0, peer: 0, again: false }),
        libc::AF_UNIX => {
            let (own, peer) = inodes(fd)?;
            Some(Request { own, peer, again: false })
        }
        _ => None,
    }
}

/// Returns the numbers of a Unix socket's inode and of its peer's (`sock_diag(7)`).
fn inodes(fd: c_int) -> Option<(u64, u64)> {
    // SAFETY: all zeros are a `stat`.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the C library writes its structure.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return None;
    }
    let own = stat.st_ino;
    // SAFETY: plain numbers.
    let diagnoses = unsafe {
        libc::syscall(
            libc::SYS_socket,
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            NETLINK_SOCK_DIAG,
        )
    };
    let diagnoses = (diagnoses >= 0).then(|| Descriptor(diagnoses as c_int))?;
    let ask: [u32; 10] =
        [40, 20 | 1 << 16, 1, 0, libc::AF_UNIX as u32, u32::MAX, own as u32, SHOW_PEER, u32::MAX, u32::MAX];
    // SAFETY: words of our own.
    if unsafe { kernel::send(diagnoses.0, ask.as_ptr().cast(), size_of_val(&ask), 0) } != 40 {
        return None;
    }
    let mut answer = [0_u32; 64];
    // SAFETY: words of our own.
    let got = unsafe { kernel::recv(diagnoses.0, answer.as_mut_ptr().cast(), size_of_val(&answer), 0) };
    // Header of 16 bytes, message of 16, then attributes: length and kind, and the value.
    let words = answer.get(..got.max(0) as usize / 4)?;
    let is_answer = words.get(1)? & 0xffff == 20;
    let mut at = 8;
    while is_answer && at + 1 < words.len() {
        let (length, kind) = ((words[at] & 0xffff) as usize, words[at] >> 16);
        if kind == ATTRIBUTE_PEER {
            return Some((own, words[at + 1].into()));
        }
        at += length.max(4).div_ceil(4);
    }
    None
}

const NETLINK_SOCK_DIAG: c_int = 4;
const SHOW_PEER: u32 = 4;
const ATTRIBUTE_PEER: u32 = 2;

/// Descriptor of this library's own; dropping it closes it.
struct Descriptor(c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        kernel::close(self.0);
    }
}

/// Room for one descriptor beside a message.
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
    fn connect(to: &sockaddr_un) -> Option<Descriptor> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: plain numbers.
        let made = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
        let made = (made >= 0).then(|| Descriptor(made as c_int))?;
        // A broker that is stopped does not stop its programs.
        let most = libc::timeval { tv_sec: 1, tv_usec: 0 };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            // SAFETY: the kernel reads a structure of our own.
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
        // SAFETY: an address of our own.
        let connected =
            unsafe { libc::syscall(libc::SYS_connect, made.0, &raw const *to, size_of::<sockaddr_un>()) };
        (connected == 0).then_some(made)
    }

    fn send(&self, bytes: &[u8], passed: c_int) -> Option<()> {
        let mut beside = Beside {
            header: libc::cmsghdr {
                cmsg_len: Beside::LENGTH as _,
                cmsg_level: libc::SOL_SOCKET,
                cmsg_type: libc::SCM_RIGHTS,
            },
            fd: passed,
            _rest: 0,
        };
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all zeros are an empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Beside>() as _);
        // SAFETY: structures of our own.
        let sent = unsafe { kernel::sendmsg(self.0, &raw const message, libc::MSG_NOSIGNAL) };
        (sent == bytes.len() as isize).then_some(())
    }

    fn recv(&self) -> Option<([u8; BYTES], Option<Descriptor>)> {
        let mut bytes = [0; BYTES];
        // SAFETY: all zeros are an empty header.
        let mut beside = unsafe { std::mem::zeroed::<Beside>() };
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: BYTES };
        // SAFETY: all zeros are an empty message.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
        (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Beside>() as _);
        // SAFETY: structures of our own.
        let got = unsafe { kernel::recvmsg(self.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        let has_one = message.msg_controllen as usize >= Beside::LENGTH
            && (beside.header.cmsg_level, beside.header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        let passed = has_one.then(|| Descriptor(beside.fd));
        (got == BYTES as isize).then_some((bytes, passed))
    }
}
