//! Connection to the manager: to the first one and to those that follow it.

use super::Error;
use crate::bells::Bells;
use crate::wire::{self, ClientId, Denied, Hello, Incoming, Welcome};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::path::{Path, PathBuf};

/// Parameters of a connection, kept for connecting to the next manager.
pub(super) struct Connecting {
    pub path: PathBuf,
    pub name: String,
    pub bells: Bells,
}

/// Connects to the socket of a manager.
pub(super) fn connect(path: &Path) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::CONNREFUSED => Error::NoManager(path.into()),
        error => Error::Connect { path: path.into(), error: error.into() },
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(failed)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    Ok(socket)
}

/// Sends our hello and receives the manager's welcome, with the descriptors of devices.
pub(super) fn greet(
    socket: &OwnedFd,
    path: &Path,
    name: &str,
    again: Option<ClientId>,
    bells: &Bells,
) -> Result<(Welcome, Vec<OwnedFd>), Error> {
    let failed = |error: Errno| Error::Connect { path: path.into(), error: error.into() };
    let hello = Hello { name: name.to_string(), again };
    wire::send(socket.as_fd(), &wire::first(&hello), &[bells.file()]).map_err(failed)?;
    match wire::receive(socket.as_fd()).map_err(failed)? {
        Incoming::Packet(bytes, devices) => match wire::read_first::<Result<Welcome, Denied>>(&bytes) {
            Ok(welcome) => Ok((welcome?, devices)),
            Err(0) => Err(Error::NotAPool(path.into())),
            Err(theirs) => Err(Denied::Version { theirs }.into()),
        },
        Incoming::Malformed => Err(Error::NotAPool(path.into())),
        // It ended, or refused us without a word.
        Incoming::End => Err(Error::NoManager(path.into())),
    }
}
