//! Writes tables.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde_json::Value;

use super::{TABLE_KEY, TableKind};
use crate::storage::StoredWriter;
use crate::{AtomicFile, RecordError};

/// Number of rows that are compressed together: large enough to compress well, small enough to fit in a cache.
const ROW_GROUP: usize = 128 * 1024;

/// Rows in Arrow's representation: the schema, with the table's name and metadata, and batches of columns.
pub type RowBatches = (Arc<Schema>, Vec<RecordBatch>);

/// Converts rows into batches of columns.
pub fn to_batches<R: TableKind>(rows: impl Iterator<Item = R>, meta: &R::Meta) -> RowBatches {
    let entries = entries::<R>(meta).expect("metadata are numbers and text");
    let schema = Arc::new(
        Schema::new(R::fields())
            .with_metadata(entries.into_iter().collect::<std::collections::BTreeMap<_, _>>()),
    );
    let (mut columns, mut waiting, mut batches) = (R::ColumnSet::default(), 0, Vec::new());
    let batch = |columns: &mut R::ColumnSet| {
        RecordBatch::try_new(schema.clone(), R::take(columns)).expect("columns follow the schema")
    };
    for row in rows {
        row.push(&mut columns);
        waiting += 1;
        if waiting == ROW_GROUP {
            batches.push(batch(&mut columns));
            waiting = 0;
        }
    }
    if waiting > 0 {
        batches.push(batch(&mut columns));
    }
    (schema, batches)
}

/// Table that is being written. The file appears only when [`Writer::finish`] is called.
pub struct Writer<R: TableKind> {
    parquet: StoredWriter<AtomicFile>,
    schema: Arc<Schema>,
    columns: R::ColumnSet,
    waiting: usize,
    rows: usize,
    last: Option<R>,
}

impl<R: TableKind> Writer<R> {
    /// Starts a table in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Writer<R>, RecordError> {
        let path = path.as_ref();
        let schema = Arc::new(Schema::new(R::fields()));
        let file = AtomicFile::create(path)?;
        let parquet =
            StoredWriter::new(file, &schema, properties(&schema)).map_err(|why| cannot_write(path, why))?;
        Ok(Writer { parquet, schema, columns: R::ColumnSet::default(), waiting: 0, rows: 0, last: None })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the row is not permitted in this table, or the file cannot be written. A row that is not permitted is not added.
    pub fn push(&mut self, row: R) -> Result<(), RecordError> {
        R::check(self.last.as_ref(), &row).map_err(|why| RecordError::BadRow {
            path: self.parquet.inner().path().into(),
            row: self.rows,
            why,
        })?;
        row.push(&mut self.columns);
        (self.last, self.rows, self.waiting) = (Some(row), self.rows + 1, self.waiting + 1);
        if self.waiting == ROW_GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes the remaining rows and the metadata, and gives the file its final name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self, meta: &R::Meta) -> Result<(), RecordError> {
        self.flush()?;
        let path = self.parquet.inner().path().to_path_buf();
        for (key, value) in entries::<R>(meta).map_err(RecordError::json(&path))? {
            self.parquet.append_key_value_metadata(key, value);
        }
        self.parquet.into_inner().map_err(|why| cannot_write(&path, why))?.commit()
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        self.waiting = 0;
        let columns = R::take(&mut self.columns);
        let batch = RecordBatch::try_new(self.schema.clone(), columns).expect("columns follow the schema");
        self.parquet.write(&batch).map_err(|why| cannot_write(self.parquet.inner().path(), why))
    }
}

/// Returns the metadata as pairs of key and text. The table's name is the first pair.
fn entries<R: TableKind>(meta: &R::Meta) -> Result<Vec<(String, String)>, serde_json::Error> {
    let mut entries = vec![(TABLE_KEY.to_string(), R::NAME.to_string())];
    if let Value::Object(fields) = serde_json::to_value(meta)? {
        entries.extend(fields.iter().map(|(key, value)| (format!("unrack.{key}"), value.to_string())));
    }
    Ok(entries)
}

/// Returns the properties of the Parquet file. Number columns get no dictionary, because their values vary too much; text columns always
/// get one.
pub(crate) fn properties(schema: &Schema) -> WriterProperties {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_created_by(format!("unrack {}", env!("CARGO_PKG_VERSION")));
    let words = schema.fields().iter().filter(|field| !field.data_type().is_primitive());
    words
        .fold(properties, |p, field| {
            p.set_column_dictionary_enabled(ColumnPath::from(field.name().as_str()), true)
        })
        .build()
}

fn cannot_write(path: &Path, why: ParquetError) -> RecordError {
    RecordError::io("write", path)(std::io::Error::other(why))
}
