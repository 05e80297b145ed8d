//! Packets as bytes: the headers that are on the wire, for captures.
//!
//! | fabric | a packet is |
//! |---|---|
//! | `tcp`, `dctcp` | an Ethernet frame with IPv4 and TCP headers ([`tcp`]) |
//! | all others | a header of our own ([`plain`]) that says what their packets say |
//!
//! Payload is not kept: it counts in [`Frame::length`] alone.

pub mod plain;
pub mod tcp;

use crate::engine::Hop;
use unrack_workload::Message;

/// How packets of a fabric are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `ecn`: data may be marked.
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
    /// Its headers.
    pub bytes: Vec<u8>,
    /// How long it is with its payload.
    pub length: u32,
}

impl Wire {
    pub fn of(fabric: &'static str) -> Wire {
        match fabric {
            "tcp" => Wire::Tcp { ecn: false },
            "dctcp" => Wire::Tcp { ecn: true },
            fabric => Wire::Plain { fabric },
        }
    }

    pub fn is_ethernet(self) -> bool {
        matches!(self, Wire::Tcp { .. })
    }

    /// The packet of a hop, which belongs to `message`.
    pub fn frame(self, hop: &Hop, message: Option<&Message>) -> Frame {
        match (self, message, hop.message) {
            (Wire::Tcp { ecn }, Some(message), Some(id)) => tcp::frame(hop, id, message, ecn),
            (Wire::Plain { fabric }, ..) => plain::frame(hop, fabric),
            (Wire::Tcp { .. }, ..) => plain::frame(hop, "tcp"),
        }
    }
}
