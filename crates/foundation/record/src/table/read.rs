//! Reads tables, and checks their schema, metadata and rows.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::file::metadata::KeyValue;
use serde_json::Value;

use super::cell::{ColumnMismatch, ColumnValue};
use super::guard::guarded;
use super::{RowBatches, TABLE_KEY, TableKind};
use crate::RecordError;
use crate::storage::Stored;
use unrack_input::clipped;

/// Largest number of rows of a table, because the messages of a run are numbered with 32 bits.
const MOST_ROWS: u64 = u32::MAX as u64;

/// Reads a whole table, and checks its schema, its metadata and every row.
///
/// The Parquet library is known to panic on some damaged files. Such a panic is caught and returned as an error.
pub(crate) fn read<R: TableKind>(path: impl AsRef<Path>) -> Result<(R::Meta, Vec<R>), RecordError> {
    let path = path.as_ref();
    let file = unrack_input::open(path, u64::MAX)?;
    guarded(|| read_file(path, file)).unwrap_or_else(|| Err(gave_up(path)))
}

/// Returns the number of rows of a Parquet file, according to its metadata.
///
/// # Errors
/// If the file cannot be read.
pub fn rows_of(path: impl AsRef<Path>) -> Result<u64, RecordError> {
    let path = path.as_ref();
    let file = unrack_input::open(path, u64::MAX)?;
    guarded(|| stored(path, file).map(|stored| stored.rows())).unwrap_or_else(|| Err(gave_up(path)))
}

/// Reads a Parquet file whose columns have the types that Unrack's tables use: numbers, truth values and text.
///
/// # Errors
/// If the file cannot be read, or a column has another type.
pub fn read_batches(path: impl AsRef<Path>) -> Result<RowBatches, RecordError> {
    let path = path.as_ref();
    let file = unrack_input::open(path, u64::MAX)?;
    let all = || {
        let stored = stored(path, file)?;
        if let Some((column, holds)) = stored.unread().next() {
            let (column, holds) = (clipped(column), clipped(holds));
            return Err(damaged(path, format!("column `{column}` holds {holds}, which is not read here")));
        }
        check_version(path, &stored)?;
        let schema = stored.schema(|_| true);
        let batches = stored.batches(&schema).collect::<Result<Vec<_>, _>>();
        Ok((schema, batches.map_err(|why| damaged(path, why))?))
    };
    guarded(all).unwrap_or_else(|| Err(gave_up(path)))
}

fn gave_up(path: &Path) -> RecordError {
    RecordError::Damaged { path: path.into(), why: "the Parquet reader gave up".into() }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> RecordError {
    RecordError::Damaged { path: path.into(), why: clipped(&why.to_string()).into_owned() }
}

fn stored(path: &Path, file: File) -> Result<Stored, RecordError> {
    Stored::open(file).map_err(|why| damaged(path, why))
}

fn read_file<R: TableKind>(path: &Path, file: File) -> Result<(R::Meta, Vec<R>), RecordError> {
    let stored = &stored(path, file)?;
    if stored.rows() > MOST_ROWS {
        return Err(damaged(path, format!("{} rows are more than {MOST_ROWS}", stored.rows())));
    }
    check_name::<R>(path, stored.entries())?;
    check_version(path, stored)?;
    let mut rows = Vec::new();
    let fields = R::fields();
    let schema = stored.schema(|name| fields.iter().any(|field| field.name() == name));
    // A batch without rows but with all columns, so that a wrong schema is found before many rows are read.
    let empty = RecordBatch::new_empty(schema.clone());
    R::read(&RowBatch { path, stored, batch: empty, first_row: 0 }, &mut rows)?;
    let meta = meta::<R>(path, stored.entries())?;
    for batch in stored.batches(&schema) {
        let batch = batch.map_err(|why| damaged(path, why))?;
        // Memory is reserved before the rows are read, because a file of a few bytes can contain a repeated row many million times.
        rows.try_reserve(batch.num_rows()).map_err(|why| damaged(path, why))?;
        read_batch(&RowBatch { path, stored, batch, first_row: rows.len() }, &mut rows)?;
    }
    Ok((meta, rows))
}

fn read_batch<R: TableKind>(batch: &RowBatch, rows: &mut Vec<R>) -> Result<(), RecordError> {
    R::read(batch, rows)?;
    for i in batch.first_row..rows.len() {
        let previous = i.checked_sub(1).map(|previous| &rows[previous]);
        R::check(previous, &rows[i]).map_err(|why| RecordError::BadRow {
            path: batch.path.into(),
            row: i,
            why,
        })?;
    }
    Ok(())
}

/// Rejects a file that contains the name of another table. A file without a name is judged by its columns.
fn check_name<R: TableKind>(path: &Path, entries: &[KeyValue]) -> Result<(), RecordError> {
    let name = entries.iter().find(|entry| entry.key == TABLE_KEY).and_then(|entry| entry.value.clone());
    match name {
        Some(found) if found != R::NAME => {
            let found = clipped(&found).into_owned();
            Err(RecordError::WrongTable { path: path.into(), expected: R::NAME, found })
        }
        _ => Ok(()),
    }
}

/// Rejects message tables of an earlier version, whose `ideal_ps` was the unloaded time. It would otherwise be taken for the lower bound.
fn check_version(path: &Path, stored: &Stored) -> Result<(), RecordError> {
    let schema = stored.schema(|_| true);
    let has = |column| schema.column_with_name(column).is_some();
    match has("ideal_ps") && has("slowdown") && !has("unloaded_ps") {
        true => Err(RecordError::EarlierMessages { path: path.into() }),
        false => Ok(()),
    }
}

/// Returns the metadata. Each field of `R::Meta` comes from the entry with its name.
fn meta<R: TableKind>(path: &Path, entries: &[KeyValue]) -> Result<R::Meta, RecordError> {
    let mut fields = serde_json::Map::new();
    for KeyValue { key, value } in entries.iter().filter(|entry| entry.key != TABLE_KEY) {
        let (Some(field), Some(value)) = (key.strip_prefix("unrack."), value) else { continue };
        let value =
            serde_json::from_str(value).map_err(|why| bad_meta::<R>(path, format!("`{key}`: {why}")))?;
        fields.insert(field.into(), value);
    }
    serde_json::from_value(Value::Object(fields)).map_err(|why| bad_meta::<R>(path, why))
}

fn bad_meta<R: TableKind>(path: &Path, why: impl std::fmt::Display) -> RecordError {
    RecordError::BadMetadata {
        path: path.into(),
        table: R::NAME,
        why: clipped(&why.to_string()).into_owned(),
    }
}

/// A batch of rows of a file, accessible by columns.
pub struct RowBatch<'a> {
    path: &'a Path,
    stored: &'a Stored,
    batch: RecordBatch,
    first_row: usize,
}

impl RowBatch<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns the values of a column.
    ///
    /// # Errors
    /// If the column is missing or has another type.
    pub fn column<C: ColumnValue>(&self, column: &'static str) -> Result<Vec<C>, RecordError> {
        let path = || self.path.to_path_buf();
        let expected = || C::HOLDS;
        let mistyped = |found: &str| RecordError::MistypedColumn {
            path: path(),
            column,
            expected: expected(),
            found: clipped(found).into_owned(),
        };
        let Some(array) = self.batch.column_by_name(column) else {
            return Err(match self.stored.unread().find(|(name, _)| *name == column) {
                Some((_, holds)) => mistyped(holds),
                None => RecordError::MissingColumn { path: path(), column, expected: expected() },
            });
        };
        C::values(array).map_err(|mismatch| match mismatch {
            ColumnMismatch::Type => mistyped(&array.data_type().to_string()),
            ColumnMismatch::Row(row, why) => {
                let (row, why) = (self.first_row + row, format!("column `{column}`: {why}"));
                RecordError::BadRow { path: path(), row, why }
            }
        })
    }
}
