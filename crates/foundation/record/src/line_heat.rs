//! Table `heat.parquet`: the accesses of a program that memory served, and the lines that the program wrote back to memory, by address and
//! time.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::table::{self, TableKind, table};

table! {
    /// Lines of one address range in one epoch. Rows are sorted by epoch, then by page. Ranges without accesses have no row.
    pub struct Row {
        /// Number of the epoch, from 0.
        pub epoch: u32,
        /// Address of the first byte of the range, divided by the size of the range.
        pub page: u64,
        /// Loads and stores that memory served.
        pub misses: u64,
        /// Modified lines that were written from the caches to memory.
        pub write_backs: u64,
    }
}

/// The recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub command_line: Vec<String>,
    /// Path of the recorded program: the one, among the programs of the run, that fetched most lines from memory.
    pub program: String,
    /// Bytes of a range: one page, or more if the program has many pages.
    pub page_size: u64,
    /// Instructions of an epoch, over all threads.
    pub epoch_instructions: u64,
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
    const NAME: &'static str = "line-heat";

    fn check(previous: Option<&Row>, row: &Row) -> Result<(), String> {
        match previous {
            Some(before) if (before.epoch, before.page) >= (row.epoch, row.page) => {
                Err(format!("heat is sorted by epoch and page, but {} follows {}", row.page, before.page))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn a_table_is_read_as_it_was_written_and_its_order_is_checked() {
        let folder = TestFolder::new("line-heat");
        let meta = Meta {
            command_line: vec!["x".into()],
            program: "/bin/x".into(),
            page_size: 4096,
            epoch_instructions: 9,
        };
        let row = |epoch, page| Row { epoch, page, misses: 3, write_backs: 1 };
        let rows = [row(0, 7), row(0, 9), row(1, 7)];
        let mut table = Writer::create(folder.join("heat.parquet")).unwrap();
        rows.iter().for_each(|row| table.push(*row).unwrap());
        assert!(table.push(row(1, 7)).is_err() && table.push(row(0, 8)).is_err());
        table.finish(&meta).unwrap();
        assert_eq!(read(folder.join("heat.parquet")).unwrap(), (meta, rows.to_vec()));
    }
}
