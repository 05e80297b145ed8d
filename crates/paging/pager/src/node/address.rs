//! Addresses of memory nodes.

use crate::control::{NodePlace, PagerSettings};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

/// Address of a memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp {
        ip: [u8; 4],
        port: u16,
    },
    /// Path of the socket through which the node hands out memory.
    Shared(String),
    /// Node over TCP. A process on this machine encrypts the connection; it listens at a socket.
    Encrypted {
        ip: [u8; 4],
        port: u16,
        /// Path of the encrypting process's socket.
        by: String,
    },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Address::Tcp { ip: [a, b, c, d], port } | Address::Encrypted { ip: [a, b, c, d], port, .. } => {
                write!(f, "{a}.{b}.{c}.{d}:{port}")
            }
            Address::Shared(path) => f.write_str(path),
        }
    }
}

impl PagerSettings {
    /// Returns the addresses of the run's memory nodes; none if remote pages are in a private arena.
    pub fn addresses(&self) -> Vec<Address> {
        self.nodes.iter().map_while(NodePlace::node).collect()
    }
}

impl NodePlace {
    fn node(&self) -> Option<Address> {
        match self.kind.load(Relaxed) {
            0 => None,
            1 => Some(Address::Tcp { ip: self.ip(), port: self.port.load(Relaxed) as u16 }),
            2 => Some(Address::Shared(self.path())),
            _ => Some(Address::Encrypted {
                ip: self.ip(),
                port: self.port.load(Relaxed) as u16,
                by: self.path(),
            }),
        }
    }

    fn ip(&self) -> [u8; 4] {
        self.address.load(Relaxed).to_be_bytes()
    }

    fn path(&self) -> String {
        let bytes = self.path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        let path: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&path).into_owned()
    }
}
