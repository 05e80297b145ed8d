//! Parameters of CXL.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// Parameters of a CXL.mem fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Flit format. Default `68B`.
    pub flit: Flit,
    /// Number of messages of each class that the receiving end of a link has room for. Default 64, the most that one
    /// credit return can announce (CXL 3.x §4.2, credit return encodings).
    pub credits: u32,
    /// Number of lines that a node may have requested but not received. Default 256: 16 cores with 16 line fill
    /// buffers each.
    pub outstanding: u32,
    /// Time from a line's arrival in the switch until it can leave. Default 100 ns (EDM §2.2, after Pond, ASPLOS
    /// 2023).
    pub hop: Time,
    /// Latency of a node's port in each direction. Default 12.5 ns, which is 25 ns for both directions (Pond, ASPLOS
    /// 2023).
    pub port: Time,
    /// Maximum number of lines of a transfer that travel together: they take turns as one line, and cost as much to
    /// simulate as one. Default 1: each line travels separately. With 16, large transfers are ten times cheaper to
    /// simulate; `docs/protocols.md` shows how much results differ. No more than a quarter of `credits` and a
    /// sixteenth of `outstanding` travel together, always in whole flits. Lines travel separately where links fail or
    /// corrupt flits, and where flits of 68 B reach links that are less than twice as fast as the links before.
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

/// Flit formats (CXL 3.x §4.2 and §4.3).
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
    /// Returns the length of a flit.
    pub const fn bytes(self) -> Bytes {
        Bytes::new(match self {
            Flit::B68 => 68,
            Flit::B256 => 256,
        })
    }
    /// Returns the number of slots in a flit.
    pub const fn slots(self) -> u32 {
        match self {
            Flit::B68 => 4,
            Flit::B256 => 15,
        }
    }
}
