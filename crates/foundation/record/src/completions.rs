//! Table `completions.parquet`: the times that pages would have waited on a fabric, for injection.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, table};
pub use crate::trace::Kind;

table! {
    /// Completed transfer.
    pub struct Row {
        pub kind: Kind,
        pub bytes: u64,
        /// Time from submission to completion.
        pub completion_ps: u64,
        /// Least time of the same transfer on any fabric: its bits at the rate of one link, and the distance.
        pub ideal_ps: u64,
    }
}

/// Simulated network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub fabric: String,
    /// Rate of a node's link.
    pub link_rate_bps: u64,
}

pub type Writer = table::Writer<Row>;

/// Reads the table of a file.
///
/// # Errors
/// If the file is not such a table.
pub fn read(path: impl AsRef<Path>) -> Result<(Meta, Vec<Row>), RecordError> {
    table::read(path)
}

impl TableKind for Row {
    type Meta = Meta;
    const NAME: &'static str = "completions";
}
