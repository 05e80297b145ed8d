//! Where clients reach a node, and the connections that come.

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unrack_keys::shares::Peer;

/// Where clients reach a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Port 0: one that is free.
    Tcp(SocketAddr),
    /// Path of a socket, through which memory is handed out to its user's own processes.
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

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, which others may end.
#[derive(Clone)]
pub(crate) enum Stream {
    Tcp(Arc<TcpStream>),
    Unix(Arc<UnixStream>),
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

impl Listener {
    /// Also says where it really listens.
    pub fn bind(at: &Listen) -> io::Result<(Listener, Listen)> {
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

    pub fn accept(&self) -> io::Result<Stream> {
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

/// A socket of mode 0600. Its mode is that of the descriptor when it is bound, so there is no moment when it is another.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A socket that nobody answers at is left over from a node that was killed.
fn remove_left_over(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        // If it cannot be removed, binding says why.
        let _ = std::fs::remove_file(path);
    }
}

impl Stream {
    /// Who is there, as the kernel says.
    pub fn client(&self) -> io::Result<Peer> {
        match self {
            Stream::Tcp(stream) => Ok(Peer::from_address(stream.peer_addr()?.ip())),
            Stream::Unix(stream) => Ok(Peer::User(sockopt::socket_peercred(&**stream)?.uid.as_raw())),
        }
    }

    pub fn shutdown(&self, how: Shutdown) {
        // What is closed already needs no more closing.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        };
    }
}
