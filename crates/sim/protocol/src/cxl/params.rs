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
    /// Messages of each class that the receiving end of a link has room for. Default 64: the most that one credit
    /// return can announce (CXL 3.x §4.2, credit return encodings).
    pub credits: u32,
    /// Lines that a node may have requested and not received. Default 256: 16 cores with 16 line fill
    /// buffers each.
    pub outstanding: u32,
    /// Time from a line's arrival in the switch until it can leave. Default 100 ns (EDM §2.2, after Pond, ASPLOS 2023).
    pub hop: Time,
    /// Latency that the port of a node adds, each way. Default 12.5 ns: 25 ns there and back (Pond, ASPLOS 2023).
    pub port: Time,
    /// Lines of a transfer that travel together at most: they take turns as one, and cost as much to simulate as one.
    /// Default 1: each line by itself. 16 makes large transfers ten times cheaper; how far results then differ is in
    /// `docs/protocols.md`. No more than a quarter of `credits` and a sixteenth of `outstanding` travel together, in
    /// whole flits; and each line by itself where links fail or corrupt flits, or where flits of 68 B meet links less
    /// than twice as fast as those before.
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
