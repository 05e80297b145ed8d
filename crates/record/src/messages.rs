//! `messages.parquet`: every message of a simulation.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, Table, kind, table};

table! {
    /// One message.
    pub struct Row {
        pub id: u64,
        pub src: u32,
        pub dst: u32,
        pub kind: Kind,
        pub bytes: u64,
        pub submitted_ps: u64,
        /// `None`: it did not finish.
        pub completed_ps: Option<u64>,
        /// From submission to completion, alone on the same fabric.
        pub ideal_ps: u64,
        /// Time taken over `ideal_ps`; NaN if it did not finish.
        pub slowdown: f64,
        pub retransmissions: u32,
        pub drops: u32,
    }
}

kind! {
    /// What a message asks for.
    pub enum Kind {
        Read = "read",
        Write = "write",
        /// Read, modify and write, at the memory's side.
        Rmw = "rmw",
        /// A stream of known size, from source to destination.
        Flow = "flow",
    }
}

/// The simulation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
}

pub type Writer = table::Writer<Row>;

pub fn read(path: impl AsRef<Path>) -> Result<(Meta, Vec<Row>), RecordError> {
    table::read(path)
}

impl Table for Row {
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
