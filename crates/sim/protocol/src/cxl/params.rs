//! Parameters of CXL.mem.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// Parameters of a CXL.mem fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Flit format. Default `68B`.
    pub flit: Flit,
    /// Number of buffers for messages of each class at the receiving end of a link. Default 64, the maximum number of
    /// credits that one credit return can announce (CXL 3.x §4.2, credit return encodings).
    pub credits: u32,
    /// Maximum number of cache lines that a node may have requested but not received. Default 256: 16 cores with 16
    /// line fill buffers each.
    pub outstanding: u32,
    /// Time from the arrival of a message in a switch until the switch can forward it. Default 100 ns (EDM §2.2, after
    /// Pond, ASPLOS 2023).
    pub hop: Time,
    /// Latency of a node's port in each direction. Default 12.5 ns, so that the two directions take 25 ns together
    /// (Pond, ASPLOS 2023).
    pub port: Time,
    /// Maximum number of cache lines of a transfer that travel together as a run. Nodes and switches schedule a run as
    /// if it were one line, and a run costs as much simulation time as one line. Default 1: each line travels
    /// separately. With 16, large transfers take a tenth of the simulation time; `docs/protocols.md` shows how much the
    /// results differ. A run has at most a quarter of `credits` lines and a sixteenth of `outstanding` lines, and is a
    /// whole number of flits long. Every line travels separately if the scenario has links that fail or corrupt flits.
    /// The same holds with flits of 68 B if two links have different rates and the faster link is less than twice as
    /// fast as the slower one.
    #[schemars(extend("x-unhashed" = "default"))]
    pub run: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            flit: Flit::default(),
            credits: 64,
            outstanding: 256,
            hop: Time::from_ns(100),
            port: Time::from_ps(12_500),
            run: 1,
        }
    }
}

/// Flit formats (CXL 3.x §4.2 and §4.3). A flit is the unit of transmission on a CXL link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
pub enum Flit {
    /// Flit of 68 bytes: protocol id 2 B, four slots of 16 B, CRC 2 B.
    #[default]
    #[serde(rename = "68B")]
    B68,
    /// Flit of 256 bytes: header 2 B, fifteen slots of 16 B, CRC 8 B, FEC 6 B.
    #[serde(rename = "256B")]
    B256,
}

impl Flit {
    /// Returns the length of a flit in bytes, including its header and CRC.
    pub const fn bytes(self) -> Bytes {
        Bytes::new(match self {
            Flit::B68 => 68,
            Flit::B256 => 256,
        })
    }
    /// Returns the number of 16 B slots in a flit.
    pub const fn slots(self) -> u32 {
        match self {
            Flit::B68 => 4,
            Flit::B256 => 15,
        }
    }
}
