//! Packets as bytes, with the headers that are on the wire, for captures.
//!
//! | fabric | a packet is |
//! |---|---|
//! | `tcp`, `dctcp` | an Ethernet frame with IPv4 and TCP headers ([`tcp`]) |
//! | all others | a header of our own ([`plain`]) with the contents of their packets |
//!
//! Payload is not kept: it counts in [`Frame::length`] alone.

pub mod plain;
pub mod tcp;

use unrack_engine::events::Hop;
use unrack_workload::Message;

/// Format in which packets of a fabric are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// Ethernet, IPv4 and TCP headers. `ecn`: data may be marked.
    Tcp {
        ecn: bool,
    },
    Plain {
        fabric: &'static str,
    },
}

/// A packet as bytes.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Headers of the packet.
    pub bytes: Vec<u8>,
    /// Bytes including the payload.
    pub length: u32,
}

impl WireFormat {
    /// Returns whether packets are Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        matches!(self, WireFormat::Tcp { .. })
    }

    /// Converts the packet of a hop, which belongs to `message`.
    pub fn frame(self, hop: &Hop, message: Option<&Message>) -> Frame {
        match (self, message, hop.message) {
            (WireFormat::Tcp { ecn }, Some(message), Some(id)) => tcp::frame(hop, id, message, ecn),
            (WireFormat::Plain { fabric }, ..) => plain::frame(hop, fabric),
            (WireFormat::Tcp { .. }, ..) => plain::frame(hop, "tcp"),
        }
    }
}
