//! The network for which a fabric is built, with properties other than its topology and links.

use unrack_engine::network::Network;
use unrack_units::Bytes;

/// Surroundings for which a fabric is built.
#[derive(Debug, Clone, Copy)]
pub struct FabricSite<'a> {
    pub network: &'a Network,
    pub ethernet: &'a Ethernet,
    pub seed: u64,
    /// Whether the tail of the distribution of message sizes is heavier than that of an exponential distribution.
    pub heavy_tailed: bool,
}

/// Parameters of a packet network, other than its topology.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ethernet {
    /// Largest packet, including its IP header.
    pub mtu: Bytes,
    /// Whether packets have the headers of Ethernet, IP and a transport protocol. Otherwise they consist of payload
    /// only.
    pub headers: bool,
    /// Buffers of switches. A switch drops packets that do not fit.
    pub buffer: SwitchBuffer,
    /// Whether switches forward a packet while it is still arriving. Otherwise they wait until it has arrived
    /// completely.
    pub cut_through: bool,
}

/// Buffers of switches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SwitchBuffer {
    /// Each port has a buffer of this size.
    Private(Bytes),
    /// Each switch has a buffer of this size, which its ports share.
    Shared { size: Bytes, alpha: f64 },
}

impl SwitchBuffer {
    /// Returns the maximum number of bytes that a port may hold. In a shared buffer, a single queue stops growing at
    /// alpha / (1 + alpha) of the buffer.
    pub fn of_port(self) -> Bytes {
        match self {
            SwitchBuffer::Private(size) => size,
            SwitchBuffer::Shared { size, alpha } => {
                Bytes::new((size.get() as f64 * (alpha / (1.0 + alpha))) as u64)
            }
        }
    }
}
