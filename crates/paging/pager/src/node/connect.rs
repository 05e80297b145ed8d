//! Connecting to a memory node, with hello and welcome; the only part of the client that blocks.
//!
//! Time in which this process is stopped does not count against the timeout. For this purpose, waits are cut into short slices, and a slice
//! counts for at most twice its length however long it took.

use super::address::Address;
use super::error::{Error, ErrorKind};
use super::settings::NodeSettings;
use crate::sys::{now_ns, timespec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketAddrV4, SocketFlags, SocketType, sockopt,
};
use unrack_wire::{GreetingStatus, Hello, PAGE, PageTransport, VERSION, WELCOME, WELCOME_HEAD, Welcome};

/// A connected socket and the address of the node.
pub(super) struct Link {
    pub socket: OwnedFd,
    pub address: Address,
}

impl Link {
    /// Makes an error that names the node.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error { address: self.address.clone(), kind }
    }

    /// Makes the error for a connection that failed.
    pub(super) fn broken(&self, errno: Errno) -> Error {
        self.error(match errno {
            Errno::PIPE | Errno::CONNRESET => ErrorKind::Closed,
            other => ErrorKind::Broken(other),
        })
    }

    fn wait(&self, flags: PollFlags, patience: &mut ConnectTimeLeft) -> Result<(), Error> {
        while patience.left_ns > 0 {
            match patience.poll(&mut [PollFd::new(&self.socket, flags)]) {
                Ok(0) => {}
                Ok(_) | Err(Errno::INTR) => return Ok(()),
                Err(errno) => return Err(self.broken(errno)),
            }
        }
        Err(self.error(ErrorKind::TimedOut))
    }

    /// Repeats `attempt` until it succeeds, or fails for another reason than that it would block.
    fn insist<T>(
        &self,
        flags: PollFlags,
        patience: &mut ConnectTimeLeft,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        loop {
            match attempt() {
                Err(Errno::AGAIN | Errno::INTR) => self.wait(flags, patience)?,
                other => return other.map_err(|errno| self.broken(errno)),
            }
        }
    }
}

/// Time left to wait for the node, in ns.
struct ConnectTimeLeft {
    left_ns: u64,
    waited_ns: Option<&'static AtomicU64>,
}

impl ConnectTimeLeft {
    /// Polls for at most one slice of the time left.
    fn poll(&mut self, fds: &mut [PollFd]) -> Result<usize, Errno> {
        let slice = self.left_ns.min(SLICE_NS);
        let timeout = timespec(slice);
        let begin = now_ns();
        let ready = rustix::event::poll(fds, Some(&timeout));
        let passed = (now_ns() - begin).min(2 * slice);
        self.left_ns = self.left_ns.saturating_sub(passed);
        if let Some(waited_ns) = self.waited_ns {
            waited_ns.fetch_add(passed, Relaxed);
        }
        ready
    }
}

/// Length of a slice in ns: less than a second, and a tenth of the time that a user would notice.
const SLICE_NS: u64 = 50_000_000;

/// Connects to the node, sends the hello and receives the welcome.
pub(super) fn greet(settings: &NodeSettings, transport: PageTransport) -> Result<(Link, Welcome), Error> {
    let mut patience = ConnectTimeLeft { left_ns: settings.timeout_ns, waited_ns: settings.waited_ns };
    let link = connect(settings, &mut patience)?;
    let hello = Hello::new(transport, settings.reserve_pages);
    let bytes = hello.encode();
    // A new socket's buffer has room for a hello. Therefore the hello is sent completely and at once, or not at all.
    let send = || rustix::net::send(&link.socket, &bytes, SendFlags::NOSIGNAL);
    link.insist(PollFlags::OUT, &mut patience, send)?;
    let welcome = receive_welcome(&link, &mut patience)?;
    let Welcome { version, status, free, share, .. } = welcome;
    if status != GreetingStatus::Welcome {
        let wanted = hello.reserve;
        return Err(link.error(ErrorKind::Refused { version, status, free, wanted, share }));
    }
    if transport == PageTransport::Shared && welcome.extent_pages == 0 {
        return Err(link.error(ErrorKind::Garbage("an extent without pages")));
    }
    Ok((link, welcome))
}

fn receive_welcome(link: &Link, patience: &mut ConnectTimeLeft) -> Result<Welcome, Error> {
    let mut bytes = [0u8; WELCOME];
    let mut len = 0;
    while len < WELCOME {
        let rest = &mut bytes[len..];
        let receive = || rustix::net::recv(&link.socket, &mut *rest, RecvFlags::empty());
        match link.insist(PollFlags::IN, patience, receive)?.0 {
            0 => return Err(link.error(ErrorKind::Closed)),
            received => len += received,
        }
        if let Some(head) = bytes[..len].first_chunk::<WELCOME_HEAD>() {
            check_version(link, head)?;
        }
    }
    Welcome::decode(&bytes).map_err(|malformed| link.error(ErrorKind::Garbage(malformed.0)))
}

/// Checks the version of the protocol before the rest of the welcome, because the bytes behind the head differ between versions.
fn check_version(link: &Link, head: &[u8; WELCOME_HEAD]) -> Result<(), Error> {
    match Welcome::version(head) {
        Ok(VERSION) => Ok(()),
        Ok(version) => {
            let status = GreetingStatus::OtherVersion;
            Err(link.error(ErrorKind::Refused { version, status, free: 0, wanted: 0, share: 0 }))
        }
        Err(malformed) => Err(link.error(ErrorKind::Garbage(malformed.0))),
    }
}

fn connect(settings: &NodeSettings, patience: &mut ConnectTimeLeft) -> Result<Link, Error> {
    let address = &settings.address;
    let failed = |errno| Error { address: address.clone(), kind: ErrorKind::Connect(errno) };
    let family = match address {
        Address::Tcp { .. } => AddressFamily::INET,
        Address::Shared(_) | Address::Encrypted { .. } => AddressFamily::UNIX,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
    let link = Link { socket, address: address.clone() };
    match start_connecting(&link, settings) {
        Err(Errno::INPROGRESS) => link.wait(PollFlags::OUT, patience)?,
        other => other.map_err(failed)?,
    }
    sockopt::socket_error(&link.socket).and_then(|error| error).map_err(failed)?;
    Ok(link)
}

fn start_connecting(link: &Link, settings: &NodeSettings) -> Result<(), Errno> {
    match &link.address {
        Address::Tcp { ip, port } => {
            sockopt::set_tcp_nodelay(&link.socket, true)?;
            keep_alive(&link.socket, settings.patience_ns)?;
            // The kernel grows its buffers as needed. An explicit size would stop the growth, and by default the maximum of such a size is
            // smaller than a window.
            rustix::net::connect(&link.socket, &SocketAddrV4::new((*ip).into(), *port))
        }
        Address::Shared(path) | Address::Encrypted { by: path, .. } => {
            rustix::net::connect(&link.socket, &SocketAddrUnix::new(path.as_str())?)
        }
    }
}

/// Makes the kernel detect, within `patience_ns`, that the node's machine or its link is down: by probes while the connection is idle, and
/// by missing acknowledgements while data is in flight. The intervals of probes are whole seconds.
fn keep_alive(socket: &OwnedFd, patience_ns: u64) -> Result<(), Errno> {
    let pause = Duration::from_secs((patience_ns / 4_000_000_000).max(1));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, pause)?;
    sockopt::set_tcp_keepintvl(socket, pause)?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    let user_timeout_ms = (patience_ns / 1_000_000).min(i32::MAX as u64);
    sockopt::set_tcp_user_timeout(socket, user_timeout_ms as u32)
}

const _: () = assert!(PAGE == crate::sys::PAGE);
