//! Memory that a protocol takes, from which the memory of a run is estimated: see [`memory`](crate::memory).

/// Bytes that a protocol keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Bytes of a node, besides those that every run takes for it.
    pub node: f64,
    /// Bytes of a switch port, or of a link without switches.
    pub port: f64,
    /// Bytes of a pair of nodes.
    pub pair: f64,
    /// Bytes of a message under way, at all places that know of it.
    pub open: f64,
    /// Bytes of a packet of a message under way: a bit in each set of them.
    pub segment: f64,
    /// Bytes of a packet that is on its way, and of its event.
    pub packet: f64,
    /// Bytes on the wire that a packet brings along, there and back.
    pub overhead: f64,
    /// Bytes of a message under way at each node.
    pub open_at_node: f64,
    /// Bytes of the broadcasts of a message that cross each link of a tree over all nodes.
    pub broadcast: f64,
}

impl Cost {
    /// Cost of a protocol that keeps nothing.
    pub const NONE: Cost = Cost {
        node: 0.0,
        port: 0.0,
        pair: 0.0,
        open: 0.0,
        segment: 0.0,
        packet: 0.0,
        overhead: 0.0,
        open_at_node: 0.0,
        broadcast: 0.0,
    };
    /// Bytes of a packet in one set of them.
    pub const BIT: f64 = 1.0 / 8.0;
    /// Overhead of a packet in Ethernet: bytes of a frame without its payload, plus those of a frame that answers it.
    pub const ETHERNET: f64 = 78.0 + 84.0;
}

/// Bytes of a packet on its way, and of its event, in networks of queues.
pub(crate) const PACKET: f64 = 100.0;
