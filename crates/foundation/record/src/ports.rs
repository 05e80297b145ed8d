//! Table `ports.parquet`: the links of a simulation over time, with separate rows for each direction.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, kind, table};

kind! {
    /// Kind of the sender on a link.
    pub enum Kind {
        /// A node, which sends towards its switch.
        Host = "host",
        /// A port of a switch.
        Port = "port",
    }
}

table! {
    /// One link in one interval. Intervals in which no packet was sent or waited have no row. Rows are sorted by `from_ps`.
    pub struct Row {
        /// Start of the interval. The metadata contain the length, which is the same for all intervals.
        pub from_ps: u64,
        pub kind: Kind,
        /// Number of the node, or of the port counted over all switches. In a star topology, port n sends to node n.
        pub number: u32,
        /// Time in which the link carried bits.
        pub busy_ps: u64,
        /// Busy time divided by the length of the interval, 0 to 1.
        pub utilization: f64,
        /// Packets whose last bit was sent (`packets`), their bytes on the wire including all overhead (`wire_bytes`), and their payload
        /// bytes (`payload_bytes`).
        pub packets: u32,
        pub wire_bytes: u64,
        pub payload_bytes: u64,
        /// Waiting bytes, averaged over the interval. Bytes that are being sent do not count as waiting.
        pub queue_mean_bytes: f64,
        /// Largest number of bytes that a data packet found ahead of it in this queue, including those being sent; 0 at a node.
        pub queue_max_bytes: u64,
    }
}

/// Simulation that produced the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
    /// Length of an interval.
    pub interval_ps: u64,
}

pub type Writer = table::Writer<Row>;

/// Reads a file with this table.
///
/// # Errors
/// If the file does not contain this table.
pub fn read(path: impl AsRef<Path>) -> Result<(Meta, Vec<Row>), RecordError> {
    table::read(path)
}

impl TableKind for Row {
    type Meta = Meta;
    const NAME: &'static str = "ports";

    fn check(previous: Option<&Row>, row: &Row) -> Result<(), String> {
        match previous {
            Some(before) if row.from_ps < before.from_ps => {
                Err(format!("from_ps goes back from {} to {}", before.from_ps, row.from_ps))
            }
            _ => Ok(()),
        }
    }
}
