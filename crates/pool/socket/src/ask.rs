//! Requests to the broker for an area, once a connection has lasted for some calls.
//!
//! A connection begins in the kernel. After some calls, each of its ends asks the broker: the end that asks second receives the area at
//! once, and the first end when it asks again. Therefore short connections cost nothing, and a peer without this library never receives
//! anything from it.

use crate::area::{AreaMapping, Unmappable};
use crate::request::{self, Descriptor};
use crate::table::{self, Socket};
use crate::wire::{Connection, Reply, Request};
use crate::{epoll, kernel, options, silence, uring};
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable with the number of calls after which a connection asks the broker.
pub const AFTER_VARIABLE: &str = "UNRACK_SOCKETS_AFTER";
/// Calls after which a connection asks the broker.
const AFTER: u32 = 16;
/// Number of calls after which a connection stops asking.
const LAST: u32 = 1 << 16;

/// True once this process has given up system calls that this library needs.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Leaves all connections that have not asked yet to the kernel.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Returns the number of calls after which a new connection asks the broker; `u32::MAX` if there is no broker.
pub(crate) fn first() -> u32 {
    if STOPPED.load(Ordering::Relaxed) {
        return u32::MAX;
    }
    static FIRST: OnceLock<u32> = OnceLock::new();
    *FIRST.get_or_init(|| {
        let after = std::env::var(AFTER_VARIABLE).ok().and_then(|after| after.parse().ok());
        if request::has_broker() { after.unwrap_or(AFTER).clamp(1, LAST) } else { u32::MAX }
    })
}

/// Counts a call on a socket, and asks the broker when it is time.
#[inline]
pub(crate) fn count(socket: &Socket) {
    let description = socket.description();
    let calls = description.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let is_joined_elsewhere = description.joined.load(Ordering::Relaxed) != 0;
    let is_due = calls >= description.ask_at.load(Ordering::Relaxed) || is_joined_elsewhere;
    if is_due && !socket.has_area() {
        ask(socket, calls);
    }
}

#[cold]
fn ask(socket: &Socket, calls: u32) {
    let fd = socket.fd;
    // The number of calls doubles before each further request, because a peer may never ask.
    let next = if calls >= LAST { u32::MAX } else { calls.saturating_mul(2).max(calls + 1) };
    socket.description().ask_at.store(next, Ordering::Relaxed);
    let before = kernel::errno();
    // The kernel sends `SIGIO` only for bytes that it carries itself.
    let stays = uring::is_used() || kernel::has_flag(fd, libc::O_ASYNC);
    let request = if stays { None } else { describe(fd) };
    match request.and_then(|request| send_request(fd, request)) {
        Some((Reply::Area(end), Some(map))) => {
            socket.join(map, end as usize, request.is_some_and(|request| request.own != 0));
            options::note_linger(fd);
            epoll::joined(fd);
        }
        Some((Reply::NotYet, _)) => {}
        // Ask again later, because the broker may only be stopped for a while.
        None if silence::lasts() => {}
        _ => stay(socket),
    }
    kernel::fail(before);
}

/// Asks the broker for an area that was handed out before, in order to receive the bytes in it. Afterwards the kernel carries the
/// connection, because other processes may have the socket as well and share no locks with this process.
pub(crate) fn again(fd: c_int) {
    let Some(request) = describe_known(fd) else { return };
    if let Some((Reply::Area(end), Some(map))) = send_request(fd, request) {
        table::insert(fd, kernel::is_nonblocking(fd), u32::MAX);
        match table::get(fd) {
            Some(socket) => {
                socket.is_shared.store(1, Ordering::Relaxed);
                socket.join(map, end as usize, request.own != 0);
                socket.leave();
            }
            None => map.unmap(),
        }
    }
}

/// Returns whether the broker would hand out the area of a connection again.
pub(crate) fn is_known(fd: c_int) -> bool {
    let asked = describe_known(fd).and_then(|asked| send_request(fd, asked));
    let Some((Reply::Area(_), Some(map))) = asked else { return false };
    map.unmap();
    true
}

/// Leaves a socket to the kernel for good.
fn stay(socket: &Socket) {
    socket.description().ask_at.store(u32::MAX, Ordering::Relaxed);
    table::remove(socket.fd);
}

/// Asks the broker for the area of a connected socket.
fn send_request(fd: c_int, asked: Connection) -> Option<(Reply, Option<AreaMapping>)> {
    let (reply, passed) = request::send(Request::Area(asked), fd)?;
    match reply {
        Reply::Area(end) => match AreaMapping::open(passed?.0) {
            Ok(map) => Some((Reply::Area(end), Some(map))),
            Err(Unmappable::NotAnArea | Unmappable::Kernel) => Some((Reply::Never, None)),
        },
        other => Some((other, None)),
    }
}

/// Describes a socket to the broker; `None` if it is of a kind that is never carried.
fn describe(fd: c_int) -> Option<Connection> {
    if kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_STREAM {
        return None;
    }
    match kernel::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET | libc::AF_INET6 => Some(Connection { own: 0, peer: 0, again: false }),
        libc::AF_UNIX => {
            let (own, peer) = inodes(fd)?;
            Some(Connection { own, peer, again: false })
        }
        _ => None,
    }
}

/// Describes a socket whose connection the broker may know. The connection may already have ended, in which case the peer has no address,
/// so the peer is left out.
fn describe_known(fd: c_int) -> Option<Connection> {
    let own = match kernel::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_INET | libc::AF_INET6 => 0,
        libc::AF_UNIX => inode(fd)?,
        _ => return None,
    };
    Some(Connection { own, peer: 0, again: true })
}

fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: all zeros are a valid `stat`.
    let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the C library writes its structure.
    (unsafe { libc::fstat(fd, &raw mut stat) } == 0).then_some(stat.st_ino)
}

/// Returns the inode numbers of a Unix socket and of its peer (`sock_diag(7)`).
fn inodes(fd: c_int) -> Option<(u64, u64)> {
    let own = inode(fd)?;
    // SAFETY: only plain numbers are passed.
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
    // SAFETY: a local array.
    if unsafe { kernel::send(diagnoses.0, ask.as_ptr().cast(), size_of_val(&ask), 0) } != 40 {
        return None;
    }
    let mut answer = [0_u32; 64];
    // SAFETY: a local array.
    let got = unsafe { kernel::recv(diagnoses.0, answer.as_mut_ptr().cast(), size_of_val(&answer), 0) };
    // A header of 16 bytes, a message of 16 bytes, then attributes. Each attribute has its length, its kind and its value.
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
