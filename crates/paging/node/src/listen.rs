//! Addresses of a node, its listening sockets and the connections that they accept.

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unrack_keys::shares::Peer;

/// Address at which clients reach a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Address and port over TCP. Port 0 means any free port.
    Tcp(SocketAddr),
    /// Path of a Unix socket, through which the node shares memory with processes of the same user.
    Shared(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Shared(path) => path.display().fmt(f),
        }
    }
}

/// Listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Accepted connection, which other threads can shut down.
#[derive(Clone)]
pub(crate) enum Stream {
    Tcp(Arc<TcpStream>),
    Unix(Arc<UnixStream>),
}

/// Maximum number of connections that may wait to be accepted.
const BACKLOG: i32 = 128;

impl Listener {
    /// Starts to listen, and returns the listener with the address to which it is bound.
    pub(crate) fn bind(at: &Listen) -> io::Result<(Listener, Listen)> {
        match at {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                let bound = Listen::Tcp(listener.local_addr()?);
                Ok((Listener::Tcp(listener), bound))
            }
            Listen::Shared(path) => {
                remove_left_over(path);
                Ok((Listener::Unix(bind_private(path)?), at.clone()))
            }
        }
    }

    /// Waits for the next connection.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(Arc::new(stream)))
            }
            Listener::Unix(listener) => Ok(Stream::Unix(Arc::new(listener.accept()?.0))),
        }
    }
}

/// Makes a socket of mode 0600. The mode is set before the socket is bound, so that the socket is never accessible to other users.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket at which no process listens, because a killed node left it behind.
fn remove_left_over(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        // If the socket cannot be removed, binding reports the reason.
        let _ = std::fs::remove_file(path);
    }
}

impl Stream {
    /// Returns the client at the other end: its TCP address, or the user that the kernel reports.
    pub(crate) fn client(&self) -> io::Result<Peer> {
        match self {
            Stream::Tcp(stream) => Ok(Peer::from_address(stream.peer_addr()?.ip())),
            Stream::Unix(stream) => Ok(Peer::User(sockopt::socket_peercred(&**stream)?.uid.as_raw())),
        }
    }

    /// Shuts down one or both directions of the connection.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error means that the connection is closed already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        };
    }
}
