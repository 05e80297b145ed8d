//! `ports.parquet`: the ports of a simulation, sampled.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, Table, table};

table! {
    /// One port at one time. Counters are since the start.
    pub struct Row {
        pub node: u32,
        pub port: u32,
        pub time_ps: u64,
        pub queue_bytes: u64,
        /// Largest queue since the previous sample of this port.
        pub queue_max_bytes: u64,
        pub sent_bytes: u64,
        pub pauses: u64,
        pub drops: u64,
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
    const NAME: &'static str = "ports";
}
