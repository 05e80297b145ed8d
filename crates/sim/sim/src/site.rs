//! The network that a fabric is built on, as far as it is more than topology and links.

use unrack_engine::network::Network;
use unrack_units::Bytes;

/// Surroundings of a fabric that is being built.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    pub network: &'a Network,
    pub ethernet: &'a Ethernet,
    pub seed: u64,
    /// Whether the tail of the message sizes is above an exponential's.
    pub heavy_tailed: bool,
}

/// Parameters of the network besides its topology.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ethernet {
    /// Largest packet, IP header included.
    pub mtu: Bytes,
    /// Packets have the headers of Ethernet, IP and a transport; if not, payload only.
    pub headers: bool,
    /// Buffers of switches. Packets that do not fit are dropped.
    pub buffer: SwitchBuffer,
    /// Switches forward a packet while it arrives; if not, when it has arrived completely.
    pub cut_through: bool,
}

/// Buffers of switches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SwitchBuffer {
    /// Buffer of each port.
    Private(Bytes),
    /// Buffer of each switch, shared by its ports.
    Shared { size: Bytes, alpha: f64 },
}

impl SwitchBuffer {
    /// Returns the most that a port may hold. In a shared buffer, a queue that is alone ends at alpha / (1 + alpha)
    /// of it.
    pub fn of_port(self) -> Bytes {
        match self {
            SwitchBuffer::Private(size) => size,
            SwitchBuffer::Shared { size, alpha } => {
                Bytes::new((size.get() as f64 * (alpha / (1.0 + alpha))) as u64)
            }
        }
    }
}
