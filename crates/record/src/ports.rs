//! `ports.parquet`: the links of a simulation over time, one way each.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, Table, kind, table};

kind! {
    /// Who sends on a link.
    pub enum Kind {
        /// A node, towards its switch.
        Host = "host",
        /// A switch port.
        Port = "port",
    }
}

table! {
    /// One link in one interval. Intervals in which nothing was sent or waited have no row. Rows are sorted
    /// by `from_ps`.
    pub struct Row {
        /// Start of the interval. All are as long as the metadata says.
        pub from_ps: u64,
        pub kind: Kind,
        /// Of the node, or of the port over all switches. On a star, port n is the one towards node n.
        pub number: u32,
        /// Time in which it carried bits.
        pub busy_ps: u64,
        /// The same over the length of the interval: 0 to 1.
        pub utilization: f64,
        /// Packets whose last bit left, their bytes on the wire with all overhead, and of payload.
        pub packets: u32,
        pub wire_bytes: u64,
        pub payload_bytes: u64,
        /// Bytes waiting, averaged over the time of the interval; those being sent do not wait.
        pub queue_mean_bytes: f64,
        /// The most that a data packet found ahead of it here, with what was being sent. 0 at a node.
        pub queue_max_bytes: u64,
    }
}

/// The simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
    /// Length of an interval.
    pub interval_ps: u64,
}

pub type Writer = table::Writer<Row>;

pub fn read(path: impl AsRef<Path>) -> Result<(Meta, Vec<Row>), RecordError> {
    table::read(path)
}

impl Table for Row {
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
