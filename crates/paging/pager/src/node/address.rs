//! Addresses of memory nodes.

use crate::control::PagerSettings;
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
    /// Returns the address of the run's memory node, or `None` if the run has no node.
    pub fn node(&self) -> Option<Address> {
        match self.backend.load(Relaxed) {
            0 => None,
            1 => Some(Address::Tcp { ip: self.node_ip(), port: self.node_port.load(Relaxed) as u16 }),
            2 => Some(Address::Shared(self.node_path())),
            _ => Some(Address::Encrypted {
                ip: self.node_ip(),
                port: self.node_port.load(Relaxed) as u16,
                by: self.node_path(),
            }),
        }
    }

    fn node_ip(&self) -> [u8; 4] {
        self.node_address.load(Relaxed).to_be_bytes()
    }

    fn node_path(&self) -> String {
        let bytes = self.node_path.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        let path: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&path).into_owned()
    }
}
