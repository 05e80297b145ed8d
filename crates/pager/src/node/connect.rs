//! Reaching a node and greeting it: the only part that waits.

use super::wire::{Hello, PAGE, Status, Transport, VERSION, WELCOME, Welcome};
use super::{Address, Error, ErrorKind, Settings};
use crate::sys::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketAddrV4, SocketFlags, SocketType, sockopt,
};

/// A connected socket and whose it is.
pub struct Link {
    pub socket: OwnedFd,
    pub address: Address,
}

impl Link {
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error { address: self.address.clone(), kind }
    }

    pub fn broken(&self, errno: Errno) -> Error {
        self.error(match errno {
            Errno::PIPE | Errno::CONNRESET => ErrorKind::Closed,
            other => ErrorKind::Broken(other),
        })
    }

    fn wait(&self, flags: PollFlags, until_ns: u64) -> Result<(), Error> {
        let left = until_ns.saturating_sub(now_ns());
        let timeout =
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        match rustix::event::poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout)) {
            Ok(0) => Err(self.error(ErrorKind::TimedOut)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(self.broken(errno)),
        }
    }

    /// Repeats `attempt` until it need not wait.
    fn insist<T>(
        &self,
        flags: PollFlags,
        until_ns: u64,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        loop {
            match attempt() {
                Err(Errno::AGAIN | Errno::INTR) => self.wait(flags, until_ns)?,
                other => return other.map_err(|errno| self.broken(errno)),
            }
        }
    }
}

/// Connects, says hello and is welcomed.
pub fn greet(settings: &Settings, transport: Transport) -> Result<(Link, Welcome), Error> {
    let until_ns = now_ns().saturating_add(settings.timeout_ns);
    let link = connect(&settings.address, until_ns)?;
    let hello = Hello::new(transport, settings.reserve_pages);
    let bytes = hello.encode();
    // A fresh socket's buffer holds a greeting: it goes at once and whole, or not at all.
    let send = || rustix::net::send(&link.socket, &bytes, SendFlags::NOSIGNAL);
    link.insist(PollFlags::OUT, until_ns, send)?;
    let welcome = receive_welcome(&link, until_ns)?;
    let Welcome { version, status, free, .. } = welcome;
    if status != Status::Welcome || version != VERSION {
        let status = if version == VERSION { status } else { Status::OtherVersion };
        return Err(link.error(ErrorKind::Refused { version, status, free, wanted: hello.reserve }));
    }
    if transport == Transport::Shared && welcome.extent_pages == 0 {
        return Err(link.error(ErrorKind::Garbage("an extent without pages")));
    }
    Ok((link, welcome))
}

fn receive_welcome(link: &Link, until_ns: u64) -> Result<Welcome, Error> {
    let mut bytes = [0u8; WELCOME];
    let mut len = 0;
    while len < WELCOME {
        let rest = &mut bytes[len..];
        let receive = || rustix::net::recv(&link.socket, &mut *rest, RecvFlags::empty());
        match link.insist(PollFlags::IN, until_ns, receive)?.0 {
            0 => return Err(link.error(ErrorKind::Closed)),
            received => len += received,
        }
    }
    Welcome::decode(&bytes).map_err(|malformed| link.error(ErrorKind::Garbage(malformed.0)))
}

fn connect(address: &Address, until_ns: u64) -> Result<Link, Error> {
    let failed = |errno| Error { address: address.clone(), kind: ErrorKind::Connect(errno) };
    let family = match address {
        Address::Tcp { .. } => AddressFamily::INET,
        Address::Shared(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
    let link = Link { socket, address: address.clone() };
    match start_connecting(&link) {
        Err(Errno::INPROGRESS) => link.wait(PollFlags::OUT, until_ns)?,
        other => other.map_err(failed)?,
    }
    sockopt::socket_error(&link.socket).and_then(|error| error).map_err(failed)?;
    Ok(link)
}

fn start_connecting(link: &Link) -> Result<(), Errno> {
    match &link.address {
        Address::Tcp { ip, port } => {
            sockopt::set_tcp_nodelay(&link.socket, true)?;
            // The kernel grows its buffers as needed. Asking for a size would stop that, and at a maximum that
            // is smaller by default than a window.
            rustix::net::connect(&link.socket, &SocketAddrV4::new((*ip).into(), *port))
        }
        Address::Shared(path) => rustix::net::connect(&link.socket, &SocketAddrUnix::new(path.as_str())?),
    }
}

const _: () = assert!(PAGE == crate::sys::PAGE);
