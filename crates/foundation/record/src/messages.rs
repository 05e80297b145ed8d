//! Table `messages.parquet`: every message of a simulation.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, kind, table};

table! {
    /// One message of a simulation.
    pub struct Row {
        pub id: u64,
        pub src: u32,
        pub dst: u32,
        pub kind: Kind,
        pub bytes: u64,
        pub submitted_ps: u64,
        /// Time of completion; `None` if the message did not finish.
        pub completed_ps: Option<u64>,
        /// Time from submission to completion of the same message alone on the same fabric.
        pub unloaded_ps: u64,
        /// Shortest possible time of the same message on any fabric: the transmission of its bits at the rate of one link, plus the
        /// propagation.
        pub ideal_ps: u64,
        /// Completion time divided by `unloaded_ps`; NaN if the message did not finish.
        pub slowdown: f64,
        pub retransmissions: u32,
        /// Number of packets lost on the way.
        pub drops: u32,
        /// Number of packets that lost their payload on the way and were forwarded as headers.
        pub trims: u32,
    }
}

kind! {
    /// Kind of a message.
    pub enum Kind {
        Read = "read",
        Write = "write",
        /// Atomic read-modify-write, performed at the memory.
        Rmw = "rmw",
        /// Stream of known size, from source to destination.
        Flow = "flow",
    }
}

/// Simulation that produced the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
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
    const NAME: &'static str = "messages";

    fn check(_: Option<&Row>, row: &Row) -> Result<(), String> {
        match row.completed_ps {
            Some(completed) if completed < row.submitted_ps => {
                Err(format!("message {} completes before it is submitted", row.id))
            }
            _ => Ok(()),
        }
    }
}
