//! Table `completions.parquet`: the times for which page transfers would have waited on a fabric. Runs inject these times.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, table};
pub use crate::trace::Kind;

table! {
    /// One completed transfer.
    pub struct Row {
        pub kind: Kind,
        pub bytes: u64,
        /// Time from submission to completion.
        pub completion_ps: u64,
        /// Shortest possible time of the same transfer on any fabric: the transmission of its bits at the rate of one link, plus the
        /// propagation.
        pub ideal_ps: u64,
    }
}

/// The simulated network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
    /// Rate of the link of a node.
    pub link_rate_bps: u64,
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
    const NAME: &'static str = "completions";
}
