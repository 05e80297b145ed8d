//! Memory node from which a run fetches its remote pages.

use crate::PagingError;
use crate::encrypted::Encryption;
use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use unrack_keys::EncryptionPolicy;
use unrack_pager::control::PagerSettings;
use unrack_pager::node::{self, Address, Client};

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

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Memory node of a run, and the longest silence of the node that is tolerated.
#[derive(Debug, Clone, Copy)]
pub struct RemoteNode<'a> {
    pub at: &'a MemoryNode,
    /// Time after which a page for which a thread waits is reported on standard error.
    pub page_timeout: Duration,
}

impl RemoteNode<'_> {
    /// Number of page timeouts after which the run is ended. With the usual timeout of 5 s this makes 30 s. TCP retransmits at doubling
    /// intervals, so a link that recovers is noticed after at most twice the time for which it was down. Therefore outages of 15 s are
    /// survived, for example a link renegotiation, a rapid spanning tree convergence, or a node that is paused for migration.
    const PATIENCE: u32 = 6;

    /// Returns the longest time that a thread waits for a page before the run is ended.
    pub fn patience(&self) -> Duration {
        self.page_timeout.saturating_mul(RemoteNode::PATIENCE)
    }

    pub(crate) fn tell(&self, settings: &PagerSettings) {
        settings.patience_ns.store(nanoseconds(self.patience()), Relaxed);
        self.at.tell(settings);
    }
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

    /// Asks the memory node whether it would serve this client, before a program depends on the node.
    ///
    /// # Errors
    /// If no node exists at the address, it does not answer in time, or it refuses; the error names the case.
    pub fn greet(&self, timeout: Duration) -> Result<(), PagingError> {
        let timeout_ns = nanoseconds(timeout);
        match Client::connect(&node::NodeSettings {
            timeout_ns,
            ..node::NodeSettings::new(self.address.clone())
        }) {
            Ok(_) => Ok(()),
            Err(error) => Err(PagingError::Lacking(self.failure().unwrap_or_else(|| error.to_string()))),
        }
    }

    /// Stores the node's address in the settings that pagers read.
    pub fn tell(&self, settings: &PagerSettings) {
        match &self.address {
            Address::Tcp { ip, port } => {
                tell_address(settings, *ip, *port);
                settings.backend.store(1, Relaxed);
            }
            Address::Shared(path) => {
                tell_path(settings, path);
                settings.backend.store(2, Relaxed);
            }
            Address::Encrypted { ip, port, by } => {
                tell_address(settings, *ip, *port);
                tell_path(settings, by);
                settings.backend.store(3, Relaxed);
            }
        }
    }
}

fn tell_address(settings: &PagerSettings, ip: [u8; 4], port: u16) {
    settings.node_address.store(u32::from_be_bytes(ip), Relaxed);
    settings.node_port.store(u32::from(port), Relaxed);
}

fn tell_path(settings: &PagerSettings, path: &str) {
    for (word, bytes) in settings.node_path.iter().zip(path.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pagers_are_told_what_was_asked_for() {
        for text in ["10.0.0.2:7000", "/tmp/unrack.sock", "./s", &format!("/{}", "x".repeat(106))] {
            let node: MemoryNode = text.parse().unwrap();
            let settings = PagerSettings::default();
            assert_eq!(settings.node(), None);
            node.tell(&settings);
            assert_eq!(settings.node(), Some(node.address));
        }
        let address = Address::Encrypted { ip: [10, 0, 0, 2], port: 7000, by: "/dev/shm/unrack/node".into() };
        let settings = PagerSettings::default();
        MemoryNode::plain(address.clone()).tell(&settings);
        assert_eq!(settings.node(), Some(address));
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
