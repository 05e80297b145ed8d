use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::KeyValue;
use serde_json::Value;

use super::cell::{Cell, Mismatch};
use super::{TABLE_KEY, Table};
use crate::RecordError;

const BATCH: usize = 64 * 1024;

/// Reads a whole table and checks its schema, its metadata and every row.
///
/// The Parquet library is known to panic on some damaged files; that panic ends here, as an error
/// (though the panic hook has printed its message).
pub(crate) fn read<R: Table>(path: impl AsRef<Path>) -> Result<(R::Meta, Vec<R>), RecordError> {
    let path = path.as_ref();
    let file = File::open(path).map_err(RecordError::io("open", path))?;
    catch_unwind(AssertUnwindSafe(|| read_file(path, file))).unwrap_or_else(|_| {
        Err(RecordError::Damaged { path: path.into(), why: "the Parquet reader gave up".into() })
    })
}

fn read_file<R: Table>(path: &Path, file: File) -> Result<(R::Meta, Vec<R>), RecordError> {
    let damaged =
        |why: &dyn std::fmt::Display| RecordError::Damaged { path: path.into(), why: why.to_string() };
    // The columns' own types are authoritative, so that tables written by other programs read too.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(|why| damaged(&why))?;
    let entries = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    check_name::<R>(path, &entries)?;
    let mut rows = Vec::new();
    // No rows, all columns: a wrong schema shows before anything large is read.
    let empty = RecordBatch::new_empty(builder.schema().clone());
    R::read(&Batch { path, batch: empty, first_row: 0 }, &mut rows)?;
    let meta = meta::<R>(path, &entries)?;
    for batch in builder.with_batch_size(BATCH).build().map_err(|why| damaged(&why))? {
        let batch = batch.map_err(|why| damaged(&why))?;
        read_batch(&Batch { path, batch, first_row: rows.len() }, &mut rows)?;
    }
    Ok((meta, rows))
}

fn read_batch<R: Table>(batch: &Batch, rows: &mut Vec<R>) -> Result<(), RecordError> {
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

/// A file that says it is another table is refused; one that says nothing is judged by its columns.
fn check_name<R: Table>(path: &Path, entries: &[KeyValue]) -> Result<(), RecordError> {
    let name = entries.iter().find(|entry| entry.key == TABLE_KEY).and_then(|entry| entry.value.clone());
    match name {
        Some(found) if found != R::NAME => {
            Err(RecordError::WrongTable { path: path.into(), expected: R::NAME, found })
        }
        _ => Ok(()),
    }
}

/// The fields of `R::Meta` from the entries of their names.
fn meta<R: Table>(path: &Path, entries: &[KeyValue]) -> Result<R::Meta, RecordError> {
    let mut fields = serde_json::Map::new();
    for KeyValue { key, value } in entries.iter().filter(|entry| entry.key != TABLE_KEY) {
        let (Some(field), Some(value)) = (key.strip_prefix("unrack."), value) else { continue };
        let value =
            serde_json::from_str(value).map_err(|why| bad_meta::<R>(path, format!("`{key}`: {why}")))?;
        fields.insert(field.into(), value);
    }
    serde_json::from_value(Value::Object(fields)).map_err(|why| bad_meta::<R>(path, why))
}

fn bad_meta<R: Table>(path: &Path, why: impl std::fmt::Display) -> RecordError {
    RecordError::BadMetadata { path: path.into(), table: R::NAME, why: why.to_string() }
}

/// Some rows of a file, as columns.
pub struct Batch<'a> {
    path: &'a Path,
    batch: RecordBatch,
    first_row: usize,
}

impl Batch<'_> {
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub fn column<C: Cell>(&self, column: &'static str) -> Result<Vec<C>, RecordError> {
        let path = || self.path.to_path_buf();
        let expected = || C::HOLDS;
        let Some(array) = self.batch.column_by_name(column) else {
            return Err(RecordError::MissingColumn { path: path(), column, expected: expected() });
        };
        C::values(array).map_err(|mismatch| match mismatch {
            Mismatch::Type => {
                let found = array.data_type().to_string();
                RecordError::MistypedColumn { path: path(), column, expected: expected(), found }
            }
            Mismatch::Row(row, why) => {
                let (row, why) = (self.first_row + row, format!("column `{column}`: {why}"));
                RecordError::BadRow { path: path(), row, why }
            }
        })
    }
}
