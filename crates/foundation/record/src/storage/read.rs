//! Reads record batches from Parquet files.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{self as stored, ByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use super::types;

/// Maximum number of rows of a batch.
const BATCH: usize = 64 * 1024;

/// A Parquet file that can be read as record batches.
pub(crate) struct Stored {
    file: SerializedFileReader<File>,
    columns: Vec<ReadColumn>,
}

struct ReadColumn {
    name: String,
    nullable: bool,
    /// Type of the column's values, or as an error a description of a type that cannot be read.
    holds: Result<DataType, String>,
}

impl Stored {
    /// Reads the schema and the metadata of a file.
    ///
    /// # Errors
    /// If the file is not a Parquet file.
    pub(crate) fn open(file: File) -> Result<Stored, ParquetError> {
        let file = SerializedFileReader::new(file)?;
        let described = file.metadata().file_metadata().schema_descr();
        let column = |of: &Arc<parquet::schema::types::ColumnDescriptor>| ReadColumn {
            name: of.path().string(),
            nullable: of.max_def_level() > 0,
            holds: types::arrow(of),
        };
        let columns = described.columns().iter().map(column).collect();
        Ok(Stored { file, columns })
    }

    /// Returns the number of rows according to the file's metadata.
    pub(crate) fn rows(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(u64::MAX)
    }

    /// Returns the entries of the file's metadata.
    pub(crate) fn entries(&self) -> &[KeyValue] {
        self.file.metadata().file_metadata().key_value_metadata().map_or(&[], Vec::as_slice)
    }

    /// Returns the schema of those columns that are `wanted` and that can be read.
    pub(crate) fn schema(&self, wanted: impl Fn(&str) -> bool) -> SchemaRef {
        let field = |column: &ReadColumn| {
            let holds = column.holds.as_ref().ok()?.clone();
            wanted(&column.name).then(|| Field::new(&column.name, holds, column.nullable))
        };
        Arc::new(Schema::new(self.columns.iter().filter_map(field).collect::<Vec<_>>()))
    }

    /// Returns the name and a description of the type of each column that cannot be read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&str, &str)> {
        self.columns.iter().filter_map(|column| Some((&*column.name, &**column.holds.as_ref().err()?)))
    }

    /// Returns the rows of the columns in `schema`, which must come from [`Stored::schema`].
    pub(crate) fn batches(
        &self,
        schema: &SchemaRef,
    ) -> impl Iterator<Item = Result<RecordBatch, ParquetError>> {
        (0..self.file.num_row_groups()).flat_map(move |number| {
            match self.file.get_row_group(number).and_then(|group| self.group(&*group, schema)) {
                Ok(group) => RowGroupBatches::Good(group),
                Err(why) => RowGroupBatches::Bad(Some(why)),
            }
        })
    }

    fn group(&self, group: &dyn RowGroupReader, schema: &SchemaRef) -> Result<Good, ParquetError> {
        let mut columns = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            if schema.column_with_name(&column.name).is_some() && column.holds.is_ok() {
                columns.push(group.get_column_reader(place)?);
            }
        }
        let rows = group.metadata().num_rows();
        let left = usize::try_from(rows).map_err(|_| general(format!("a group of {rows} rows")))?;
        Ok(Good { columns, schema: schema.clone(), left })
    }
}

/// Iterator over the batches of a row group.
enum RowGroupBatches {
    Good(Good),
    Bad(Option<ParquetError>),
}

struct Good {
    columns: Vec<ColumnReader>,
    schema: SchemaRef,
    left: usize,
}

impl Iterator for RowGroupBatches {
    type Item = Result<RecordBatch, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            RowGroupBatches::Bad(why) => why.take().map(Err),
            RowGroupBatches::Good(Good { left: 0, .. }) => None,
            RowGroupBatches::Good(good) => {
                let next = good.next();
                if next.is_err() {
                    good.left = 0;
                }
                Some(next)
            }
        }
    }
}

impl Good {
    fn next(&mut self) -> Result<RecordBatch, ParquetError> {
        let rows = self.left.min(BATCH);
        let fields = self.schema.fields();
        let arrays = fields.iter().zip(&mut self.columns).map(|(field, column)| array(field, column, rows));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        self.left -= rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|why| general(why.to_string()))
    }
}

/// Reads the next `rows` values of a column.
fn array(field: &Field, column: &mut ColumnReader, rows: usize) -> Result<ArrayRef, ParquetError> {
    let nullable = field.is_nullable();
    match (field.data_type(), column) {
        (DataType::UInt32, ColumnReader::Int32ColumnReader(column)) => {
            numbers::<_, UInt32Type>(take(column, rows, nullable)?, i32::cast_unsigned)
        }
        (DataType::Int32, ColumnReader::Int32ColumnReader(column)) => {
            numbers::<_, Int32Type>(take(column, rows, nullable)?, |value| value)
        }
        (DataType::UInt64, ColumnReader::Int64ColumnReader(column)) => {
            numbers::<_, UInt64Type>(take(column, rows, nullable)?, i64::cast_unsigned)
        }
        (DataType::Int64, ColumnReader::Int64ColumnReader(column)) => {
            numbers::<_, Int64Type>(take(column, rows, nullable)?, |value| value)
        }
        (DataType::Float32, ColumnReader::FloatColumnReader(column)) => {
            numbers::<_, Float32Type>(take(column, rows, nullable)?, |value| value)
        }
        (DataType::Float64, ColumnReader::DoubleColumnReader(column)) => {
            numbers::<_, Float64Type>(take(column, rows, nullable)?, |value| value)
        }
        (DataType::Boolean, ColumnReader::BoolColumnReader(column)) => {
            let mut builder = BooleanBuilder::with_capacity(rows);
            take(column, rows, nullable)?.each(|value| {
                builder.append_option(value);
                Ok(())
            })?;
            Ok(Arc::new(builder.finish()))
        }
        (DataType::Utf8, ColumnReader::ByteArrayColumnReader(column)) => texts(take(column, rows, nullable)?),
        _ => Err(general(format!("column `{}` is not of its type", field.name()))),
    }
}

/// Values of some rows of a column.
struct ColumnSlice<T> {
    /// Values of those rows that have a value.
    values: Vec<T>,
    /// Definition level of each row: 1 with a value, 0 without. `None` if every row has a value.
    levels: Option<Vec<i16>>,
}

impl<T> ColumnSlice<T> {
    /// Passes the value of each row to `to`.
    fn each(self, mut to: impl FnMut(Option<T>) -> Result<(), ParquetError>) -> Result<(), ParquetError> {
        let mut values = self.values.into_iter();
        let Some(levels) = self.levels else { return values.try_for_each(|value| to(Some(value))) };
        for level in levels {
            if level == 0 {
                to(None)?;
            } else {
                to(Some(values.next().ok_or_else(|| general("a value is missing".into()))?))?;
            }
        }
        Ok(())
    }
}

fn take<T: stored::DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    nullable: bool,
) -> Result<ColumnSlice<T::T>, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), nullable.then(Vec::new));
    let (read, present, _) = column.read_records(rows, levels.as_mut(), None, &mut values)?;
    let short = read != rows || levels.as_ref().map_or(present, Vec::len) != rows || present != values.len();
    if short {
        Err(general(format!("a column ends {} rows early", rows - read.min(rows))))
    } else {
        Ok(ColumnSlice { values, levels })
    }
}

fn numbers<T: Copy, A: ArrowPrimitiveType>(
    taken: ColumnSlice<T>,
    arrow: impl Fn(T) -> A::Native,
) -> Result<ArrayRef, ParquetError> {
    if taken.levels.is_none() {
        let values: Vec<A::Native> = taken.values.into_iter().map(arrow).collect();
        return Ok(Arc::new(PrimitiveArray::<A>::new(values.into(), None)));
    }
    let mut values = Vec::new();
    taken.each(|value| {
        values.push(value.map(&arrow));
        Ok(())
    })?;
    Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<A>>()))
}

fn texts(taken: ColumnSlice<ByteArray>) -> Result<ArrayRef, ParquetError> {
    let mut texts = StringBuilder::new();
    taken.each(|value| match value {
        Some(bytes) => {
            texts.append_value(str::from_utf8(bytes.data()).map_err(|why| general(why.to_string()))?);
            Ok(())
        }
        None => {
            texts.append_null();
            Ok(())
        }
    })?;
    Ok(Arc::new(texts.finish()))
}

fn general(why: String) -> ParquetError {
    ParquetError::General(why)
}
