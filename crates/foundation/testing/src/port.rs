//! A port that refuses connections for as long as a test needs it.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrV4, SocketType};
use std::net::Ipv4Addr;

/// A TCP port on loopback that is bound but has no listener, so that connections are refused and no other process can use the port.
pub struct ClosedPort {
    address: SocketAddrV4,
    _taken: OwnedFd,
}

impl ClosedPort {
    /// Binds a free port.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn new() -> ClosedPort {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let name = rustix::net::getsockname(&socket).expect("a bound socket has a name");
        ClosedPort { address: name.try_into().expect("it was bound to IPv4"), _taken: socket }
    }

    /// Returns the address of the port.
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }
}

impl Default for ClosedPort {
    fn default() -> ClosedPort {
        ClosedPort::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::TcpStream;

    #[test]
    fn connections_are_refused() {
        let port = ClosedPort::new();
        let error = TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}
