//! Table `trace.parquet`: every transfer between a captured program and its remote memory.
//!
//! A thread computed, between one of its fetches and the next, for
//! `t[i+1] - t[i] - wait[i] - overhead[i+1]` nanoseconds.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, kind, table};

table! {
    /// Transfer of a captured program. Rows are sorted by time.
    pub struct Row {
        /// Time since the run's start.
        pub t_ns: u64,
        /// Number of the thread, 0-based, without gaps, over all processes.
        pub thread: u32,
        /// Page number: see [`crate::page_space`].
        pub page: u64,
        pub kind: Kind,
        pub bytes: u32,
        /// Time that the thread waited; 0 for a write-back.
        pub wait_ns: u64,
        /// Time of the pager, since the thread's previous fetch, on faults that real hardware would not have: first
        /// touches, soft faults, reclaim.
        pub overhead_ns: u64,
    }
}

kind! {
    /// Direction of a transfer.
    pub enum Kind {
        /// Page from remote memory, for a thread that waits.
        Fetch = "fetch",
        /// Page to remote memory, which no thread waits for.
        WriteBack = "write-back",
    }
}

/// Captured run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub program: String,
    pub command_line: Vec<String>,
    pub page_size: u64,
    pub local_bytes: u64,
    pub footprint_bytes: u64,
    /// Duration of the captured run, from start to end.
    pub run_ns: u64,
    /// Duration of the same program without remote memory, if it was measured.
    pub native_ns: Option<u64>,
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
