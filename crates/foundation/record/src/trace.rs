//! Table `trace.parquet`: every transfer between a captured program and its remote memory.
//!
//! The time that a thread computed between one of its fetches and the next is `t[i+1] - t[i] - wait[i] - overhead[i+1]` nanoseconds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, kind, table};

table! {
    /// One transfer of a captured program. Rows are sorted by time.
    pub struct Row {
        /// Time since the start of the run.
        pub t_ns: u64,
        /// Number of the thread over all processes, 0-based and without gaps.
        pub thread: u32,
        /// Page number: see [`crate::page_space`].
        pub page: u64,
        pub kind: Kind,
        pub bytes: u32,
        /// Time for which the thread waited; 0 for a write-back.
        pub wait_ns: u64,
        /// Time that the pager spent, since the thread's previous fetch, on faults that real hardware would not cause: first touches, soft
        /// faults, reclaim.
        pub overhead_ns: u64,
    }
}

kind! {
    /// Direction of a transfer.
    pub enum Kind {
        /// Transfer of a page from remote memory, for which a thread waits.
        Fetch = "fetch",
        /// Transfer of a page to remote memory, for which no thread waits.
        WriteBack = "write-back",
    }
}

/// The captured run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub program: String,
    pub command_line: Vec<String>,
    pub page_size: u64,
    pub local_bytes: u64,
    pub footprint_bytes: u64,
    /// Duration of the captured run, from start to end.
    pub run_ns: u64,
    /// Run time of the same program without remote memory, if it was measured.
    pub native_ns: Option<u64>,
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
    const NAME: &'static str = "trace";

    fn check(previous: Option<&Row>, row: &Row) -> Result<(), String> {
        match previous {
            Some(Row { t_ns: before, .. }) if *before > row.t_ns => {
                Err(format!("a trace is sorted by time, but `t_ns` {} follows {before}", row.t_ns))
            }
            _ if row.kind == Kind::WriteBack && row.wait_ns != 0 => {
                Err(format!("no thread waits for a write-back, but `wait_ns` is {}", row.wait_ns))
            }
            _ => Ok(()),
        }
    }
}
