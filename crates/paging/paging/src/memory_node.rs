//! Address of one memory node, and the encryption of connections to it.

use crate::PagingError;
use crate::encrypted::Encryption;
use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use unrack_keys::EncryptionPolicy;
use unrack_pager::control::NodePlace;
use unrack_pager::node::{self, Address, Client, NodeLimits};

/// Address of a memory node: `ADDRESS:PORT` (IPv4), or the path of its socket if the node is used over shared memory.
#[derive(Debug, Clone)]
pub struct MemoryNode {
    address: Address,
    /// The encrypting relay through which pagers connect, if connections are to be encrypted.
    encryption: Option<Arc<Encryption>>,
}

impl FromStr for MemoryNode {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryNode, String> {
        if text.contains('/') {
            // Made absolute, because processes may connect later from another folder.
            let path = std::path::absolute(text).map_err(|why| why.to_string())?.display().to_string();
            return match path.len() {
                ..=MOST_PATH => Ok(MemoryNode::plain(Address::Shared(path))),
                _ => Err(format!(
                    "the socket's path {path} is longer than {MOST_PATH} bytes: use a shorter one"
                )),
            };
        }
        match text.parse::<SocketAddrV4>() {
            Ok(at) => Ok(MemoryNode::plain(Address::Tcp { ip: at.ip().octets(), port: at.port() })),
            Err(_) => {
                Err("expected an IPv4 address with a port, such as 10.0.0.2:7000, or a path with a /".into())
            }
        }
    }
}

/// Maximum bytes of a path in `sun_path` of `struct sockaddr_un`, without the terminating zero.
const MOST_PATH: usize = 107;

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

impl fmt::Display for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl MemoryNode {
    fn plain(address: Address) -> MemoryNode {
        MemoryNode { address, encryption: None }
    }

    /// Makes connections to the node encrypted, if the policy requires it.
    ///
    /// # Errors
    /// If keys are needed but do not exist.
    pub fn protect(&mut self, policy: &EncryptionPolicy) -> Result<(), PagingError> {
        let Address::Tcp { ip, port } = self.address else { return Ok(()) };
        let at = SocketAddrV4::new(ip.into(), port);
        let keys =
            policy.keys_for(at.into(), "--insecure").map_err(|why| PagingError::Usage(why.to_string()))?;
        if let Some(keys) = keys {
            let encryption = Encryption::start(at, keys)?;
            let by = encryption.socket().display().to_string();
            self.address = Address::Encrypted { ip, port, by };
            self.encryption = Some(Arc::new(encryption));
        }
        Ok(())
    }

    /// Returns the error of the encrypted connection that failed last.
    pub(crate) fn failure(&self) -> Option<String> {
        self.encryption.as_ref()?.failure()
    }

    /// Asks the memory node whether it would serve this client, before a program depends on the node. Returns the node's limits.
    ///
    /// # Errors
    /// If no node exists at the address, it does not answer in time, or it refuses; the error names the case.
    pub(crate) fn greet(&self, timeout: Duration) -> Result<NodeLimits, PagingError> {
        let timeout_ns = nanoseconds(timeout);
        match Client::connect(&node::NodeSettings {
            timeout_ns,
            ..node::NodeSettings::new(self.address.clone())
        }) {
            Ok(client) => Ok(client.limits()),
            Err(error) => Err(PagingError::Lacking(self.failure().unwrap_or_else(|| error.to_string()))),
        }
    }

    /// Returns whether two addresses are the same, also if they are two paths of one socket.
    pub(crate) fn is_same(&self, other: &MemoryNode) -> bool {
        match (&self.address, &other.address) {
            (Address::Shared(one), Address::Shared(two)) => {
                let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
                one == two || real(one) == real(two)
            }
            (one, two) => one == two,
        }
    }

    /// Stores the node's address in the settings that pagers read.
    pub fn tell(&self, place: &NodePlace) {
        let kind = match &self.address {
            Address::Tcp { ip, port } => {
                tell_address(place, *ip, *port);
                1
            }
            Address::Shared(path) => {
                tell_path(place, path);
                2
            }
            Address::Encrypted { ip, port, by } => {
                tell_address(place, *ip, *port);
                tell_path(place, by);
                3
            }
        };
        place.kind.store(kind, Relaxed);
    }
}

fn tell_address(place: &NodePlace, ip: [u8; 4], port: u16) {
    place.address.store(u32::from_be_bytes(ip), Relaxed);
    place.port.store(u32::from(port), Relaxed);
}

fn tell_path(place: &NodePlace, path: &str) {
    for (word, bytes) in place.path.iter().zip(path.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_pager::control::PagerSettings;

    #[test]
    fn pagers_are_told_what_was_asked_for() {
        for text in ["10.0.0.2:7000", "/tmp/unrack.sock", "./s", &format!("/{}", "x".repeat(106))] {
            let node: MemoryNode = text.parse().unwrap();
            let settings = PagerSettings::default();
            assert_eq!(settings.addresses(), []);
            node.tell(&settings.nodes[0]);
            assert_eq!(settings.addresses(), [node.address]);
        }
        let address = Address::Encrypted { ip: [10, 0, 0, 2], port: 7000, by: "/dev/shm/unrack/node".into() };
        let settings = PagerSettings::default();
        MemoryNode::plain(address.clone()).tell(&settings.nodes[0]);
        assert_eq!(settings.addresses(), [address]);
    }

    #[test]
    fn a_path_holds_wherever_a_process_goes() {
        let node: MemoryNode = "./node.sock".parse().unwrap();
        let here = std::env::current_dir().unwrap().join("node.sock");
        assert_eq!(node.to_string(), here.display().to_string());
    }

    #[test]
    fn what_is_neither_address_nor_path_is_refused() {
        for text in ["", "host", "10.0.0.2", "10.0.0.2:70000", "[::1]:7000", &format!("/{}", "x".repeat(107))]
        {
            assert!(text.parse::<MemoryNode>().is_err(), "{text}");
        }
    }
}
