//! Which memory node a run pages from.

use crate::PagingError;
use std::fmt;
use std::net::SocketAddrV4;
use std::str::FromStr;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::control::Settings;
use unrack_pager::node::{self, Address, Client};

/// Where a memory node listens: `ADDRESS:PORT` (IPv4), or the path of its socket for shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryNode(Address);

impl FromStr for MemoryNode {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryNode, String> {
        if text.contains('/') {
            // Processes connect when they need to, wherever they have gone by then.
            let path = std::path::absolute(text).map_err(|why| why.to_string())?.display().to_string();
            return match path.len() {
                ..=MOST_PATH => Ok(MemoryNode(Address::Shared(path))),
                _ => Err(format!("a socket's path has {MOST_PATH} bytes at most, and {path} has more")),
            };
        }
        match text.parse::<SocketAddrV4>() {
            Ok(at) => Ok(MemoryNode(Address::Tcp { ip: at.ip().octets(), port: at.port() })),
            Err(_) => {
                Err("neither an IPv4 address with a port, such as 10.0.0.2:7000, nor a path with a /".into())
            }
        }
    }
}

/// `sun_path` of `struct sockaddr_un`, with its end.
const MOST_PATH: usize = 107;

impl fmt::Display for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MemoryNode {
    /// Asks the node whether it would serve us, before a program depends on it.
    ///
    /// # Errors
    /// Nobody is there, or the node refuses: says which.
    pub fn greet(&self) -> Result<(), PagingError> {
        match Client::connect(&node::Settings::new(self.0.clone())) {
            Ok(_) => Ok(()),
            Err(error) => Err(PagingError::Lacking(error.to_string())),
        }
    }

    pub(crate) fn tell(&self, settings: &Settings) {
        match &self.0 {
            Address::Tcp { ip, port } => {
                settings.node_address.store(u32::from_be_bytes(*ip), Relaxed);
                settings.node_port.store(u32::from(*port), Relaxed);
                settings.backend.store(1, Relaxed);
            }
            Address::Shared(path) => {
                for (word, bytes) in settings.node_path.iter().zip(path.as_bytes().chunks(8)) {
                    let mut padded = [0; 8];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    word.store(u64::from_le_bytes(padded), Relaxed);
                }
                settings.backend.store(2, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pagers_are_told_what_was_asked_for() {
        for text in ["10.0.0.2:7000", "/tmp/unrack.sock", "./s", &format!("/{}", "x".repeat(106))] {
            let node: MemoryNode = text.parse().unwrap();
            let settings = Settings::default();
            assert_eq!(settings.node(), None);
            node.tell(&settings);
            assert_eq!(settings.node(), Some(node.0));
        }
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
