//! Connecting to the manager: to the first one, and to any manager that later replaces it.

use super::error::Error;
use crate::socket;
use crate::wakeups::Wakeups;
use crate::wire::{self, ClientId, Denied, Hello, ReceivedPacket, Welcome};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Parameters of a connection, kept for connecting to the next manager.
pub(super) struct Connecting {
    pub path: PathBuf,
    pub name: String,
    pub wakeups: Wakeups,
}

/// Time limit for a manager to accept a connection and to answer the greeting.
#[derive(Clone, Copy)]
pub(super) struct ConnectLimit {
    patience: Duration,
    /// `None` if the end is later than the clock can represent.
    end: Option<Instant>,
}

impl ConnectLimit {
    /// Returns a time limit that starts now.
    pub(super) fn new(patience: Duration) -> ConnectLimit {
        ConnectLimit { patience, end: Instant::now().checked_add(patience) }
    }

    fn left(self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }

    fn silent(self, path: &Path) -> Error {
        Error::Silent { path: path.into(), after: self.patience }
    }
}

/// Longest time that the manager may take to answer a request that depends on no other process.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the next attempt to connect, while the manager's queue of pending connections is full.
const PAUSE: Duration = Duration::from_millis(5);

/// Connects to the socket of a manager. If the socket is at the user's default path, its folder and the user who serves
/// it are checked before anything is sent.
pub(super) fn connect(path: &Path, limit: ConnectLimit) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::CONNREFUSED => Error::NoManager(path.into()),
        error => Error::Connect { path: path.into(), error: error.into() },
    };
    socket::check_folder(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let made = made.map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    loop {
        match rustix::net::connect(&made, &address) {
            Ok(()) => break,
            // The kernel's queue of pending connections is full because the manager accepts none.
            Err(Errno::AGAIN) if limit.left().is_zero() => return Err(limit.silent(path)),
            Err(Errno::AGAIN) => std::thread::sleep(PAUSE.min(limit.left())),
            Err(error) => return Err(failed(error)),
        }
    }
    socket::check_peer(path, &made)?;
    rustix::io::ioctl_fionbio(&made, false).map_err(failed)?;
    // A stopped manager does not read, so sends need a timeout; otherwise a thread could wait for ever.
    sockopt::set_socket_timeout(&made, sockopt::Timeout::Send, Some(PATIENCE)).map_err(failed)?;
    Ok(made)
}

/// Sends the hello of this process and receives the manager's welcome, with the descriptors of devices.
pub(super) fn greet(
    socket: &OwnedFd,
    Connecting { path, name, wakeups }: &Connecting,
    again: Option<ClientId>,
    limit: ConnectLimit,
) -> Result<(Welcome, Vec<OwnedFd>), Error> {
    let failed = |error: Errno| Error::Connect { path: path.into(), error: error.into() };
    let hello = Hello { name: name.clone(), again };
    wire::send(socket.as_fd(), &wire::first(&hello), &[wakeups.file()]).map_err(failed)?;
    if !is_readable(socket, limit).map_err(failed)? {
        return Err(limit.silent(path));
    }
    match wire::receive(socket.as_fd()).map_err(failed)? {
        ReceivedPacket::Packet(bytes, devices) => match wire::read_first::<Result<Welcome, Denied>>(&bytes) {
            Ok(welcome) => Ok((welcome?, devices)),
            Err(0) => Err(Error::NotAPool(path.into())),
            Err(theirs) => Err(Denied::Version { theirs }.into()),
        },
        ReceivedPacket::Malformed => Err(Error::NotAPool(path.into())),
        // The manager ended, or closed the connection without an answer.
        ReceivedPacket::End => Err(Error::NoManager(path.into())),
    }
}

/// Waits until the socket is readable. Returns false if it does not become readable within the limit.
pub(super) fn is_readable(socket: &OwnedFd, limit: ConnectLimit) -> rustix::io::Result<bool> {
    loop {
        // The kernel's longest wait is limited, so longer times are waited for in several parts.
        let left = limit.left().min(Duration::from_secs(3600));
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
            Ok(0) if limit.left().is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}
