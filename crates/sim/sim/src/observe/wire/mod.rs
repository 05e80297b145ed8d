//! Packets as bytes, with the headers that they have on the wire, for captures.
//!
//! | fabric | a packet is |
//! |---|---|
//! | `tcp`, `dctcp` | an Ethernet frame with IPv4 and TCP headers ([`tcp`]) |
//! | all others | a header that Unrack defines ([`plain`]), with the contents of the fabric's packets |
//!
//! The payload is not kept. Only [`Frame::length`] includes it.

pub mod plain;
pub mod tcp;

use unrack_engine::events::Hop;
use unrack_workload::Message;

/// Format in which captures show the packets of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// Ethernet, IPv4 and TCP headers. `ecn` is whether switches may mark data packets.
    Tcp {
        ecn: bool,
    },
    Plain {
        fabric: &'static str,
    },
}

/// A packet as bytes, for a capture.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Headers of the packet.
    pub bytes: Vec<u8>,
    /// Length of the packet in bytes, including its payload.
    pub length: u32,
}

impl WireFormat {
    /// Returns whether packets are Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        matches!(self, WireFormat::Tcp { .. })
    }

    /// Converts the packet of a hop to bytes. `message` is the message of the packet.
    pub fn frame(self, hop: &Hop, message: Option<&Message>) -> Frame {
        match (self, message, hop.message) {
            (WireFormat::Tcp { ecn }, Some(message), Some(id)) => tcp::frame(hop, id, message, ecn),
            (WireFormat::Plain { fabric }, ..) => plain::frame(hop, fabric),
            (WireFormat::Tcp { .. }, ..) => plain::frame(hop, "tcp"),
        }
    }
}
