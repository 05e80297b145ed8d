//! Memory that a protocol needs. The memory of a run is estimated from it: see [`memory`](crate::memory).

/// Bytes that a protocol keeps for each kind of object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Bytes per node, in addition to those that every run needs for a node.
    pub node: f64,
    /// Bytes per switch port or, in a network without switches, per link.
    pub port: f64,
    /// Bytes per pair of nodes.
    pub pair: f64,
    /// Bytes per message in flight, in all devices that keep state for it.
    pub open: f64,
    /// Bytes per packet of a message in flight: a bit in each set of packets that the protocol keeps.
    pub segment: f64,
    /// Bytes per packet in flight, including its event.
    pub packet: f64,
    /// Bytes that each packet adds on the wire in both directions: its headers and its answer.
    pub overhead: f64,
    /// Bytes per message in flight at each node.
    pub open_at_node: f64,
    /// Bytes of the broadcasts of a message that cross each link of a tree over all nodes.
    pub broadcast: f64,
}

impl Cost {
    /// Cost of a protocol that keeps no state.
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
    /// Bytes per packet in one set of packets.
    pub const BIT: f64 = 1.0 / 8.0;
    /// Overhead of a packet on Ethernet: the bytes of its frame without payload, plus those of a frame that answers it.
    pub const ETHERNET: f64 = 78.0 + 84.0;
}

/// Bytes per packet in flight, including its event, in networks of queues.
pub(crate) const PACKET: f64 = 100.0;
