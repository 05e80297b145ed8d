//! `completions.parquet`: what pages would have waited on a fabric, for injection.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, Table, table};
pub use crate::trace::Kind;

table! {
    /// One completed transfer.
    pub struct Row {
        pub kind: Kind,
        pub bytes: u32,
        /// From submission to completion.
        pub completion_ps: u64,
        /// What the same transfer takes at the least, whatever carries it: its bits at the rate of one
        /// link, and the distance.
        pub ideal_ps: u64,
    }
}

/// The network that was simulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
    /// Of a node's link.
    pub link_rate_bps: u64,
}

pub type Writer = table::Writer<Row>;

pub fn read(path: impl AsRef<Path>) -> Result<(Meta, Vec<Row>), RecordError> {
    table::read(path)
}

impl Table for Row {
    type Meta = Meta;
    const NAME: &'static str = "completions";
}
