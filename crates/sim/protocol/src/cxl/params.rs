//! Parameters of CXL.mem.

use super::{CLASSES, LINE_BYTES, MessageClass};
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
    /// Bytes that one credit stands for. By default, a credit is a buffer for one message of its class. With a unit, `credits` of them are
    /// buffers for as many messages as fit: 64 B for a cache line, and 16 B for a message without data. For example, 16384 credits of 8 B
    /// are buffers for 2048 cache lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unhashed" = "default"))]
    pub credit_unit: Option<Bytes>,
    /// Number of transfers of each kind (reads, and writes) whose lines a node requests in turn. Further transfers wait. Default 16, one for
    /// each core. With 1, a short transfer waits until the longer ones before it have been requested completely.
    #[schemars(extend("x-unhashed" = "default"))]
    pub transfers: u32,
    /// Order in which a memory node answers requests with data. Default `by-line`.
    #[schemars(extend("x-unhashed" = "default"))]
    pub answers: AnswerOrder,
    /// Whether lines in an input queue of a switch wait for the lines before them that go to other outputs. Default true, because a queue
    /// is first in, first out. With false, each input has a queue for each output, so that a congested output stops other traffic only
    /// when the buffers of an input are full.
    #[schemars(extend("x-unhashed" = "default"))]
    pub blocking: bool,
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
            credit_unit: None,
            transfers: 16,
            answers: AnswerOrder::default(),
            blocking: true,
            outstanding: 256,
            hop: Time::from_ns(100),
            port: Time::from_ps(12_500),
            run: 1,
        }
    }
}

impl Params {
    /// Returns the number of buffers for messages of each class at the receiving end of a link.
    pub fn buffers(&self) -> [u32; CLASSES] {
        MessageClass::ALL.map(|class| match self.credit_unit {
            None => self.credits,
            Some(unit) => {
                let bytes = if class.has_data() { LINE_BYTES } else { SLOT_BYTES };
                u32::try_from(unit.get().saturating_mul(self.credits.into()) / bytes).unwrap_or(u32::MAX)
            }
        })
    }

    /// Returns the number of buffers of the class that has the fewest.
    pub fn fewest_buffers(&self) -> u32 {
        self.buffers().into_iter().min().expect("there are classes")
    }
}

/// Bytes of a slot of a flit, which a message without data occupies.
const SLOT_BYTES: u64 = 16;

/// Order in which a memory node answers requests with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerOrder {
    /// In the order in which the requests for lines arrived, so that the answers to several nodes alternate.
    #[default]
    ByLine,
    /// The requests of one transfer that have arrived, before those of another transfer.
    ByTransfer,
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
