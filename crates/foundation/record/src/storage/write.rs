//! Writes record batches to Parquet files.

use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use parquet::data_type::{self as stored, ByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};

use super::types;

/// Parquet file that is being written, with one row group per batch.
pub(crate) struct StoredWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> StoredWriter<W> {
    /// Starts a file for batches with this schema.
    ///
    /// # Errors
    /// If this module cannot write the type of a column, or `to` cannot be written.
    pub(crate) fn new(
        to: W,
        schema: &Schema,
        properties: WriterProperties,
    ) -> Result<StoredWriter<W>, ParquetError> {
        let file = SerializedFileWriter::new(to, types::stored(schema)?, Arc::new(properties))?;
        Ok(StoredWriter { file })
    }

    /// Returns the destination to which the file is written.
    pub(crate) fn inner(&self) -> &W {
        self.file.inner()
    }

    /// Adds an entry of the file's metadata.
    pub(crate) fn append_key_value_metadata(&mut self, key: String, value: String) {
        self.file.append_key_value_metadata(KeyValue::new(key, value));
    }

    /// Writes the rows of a batch as a row group, if the batch has any rows.
    ///
    /// # Errors
    /// If the rows cannot be written.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let mut column = group.next_column()?.expect("the file has the batch's columns");
            write_column(&mut column, array, field.is_nullable())?;
            column.close()?;
        }
        group.close().map(|_| ())
    }

    /// Completes the file, and returns the destination to which it was written.
    ///
    /// # Errors
    /// If the end of the file cannot be written.
    pub(crate) fn into_inner(self) -> Result<W, ParquetError> {
        self.file.into_inner()
    }
}

fn write_column(
    column: &mut SerializedColumnWriter,
    array: &ArrayRef,
    nullable: bool,
) -> Result<(), ParquetError> {
    let there: Vec<usize> = (0..array.len()).filter(|&row| array.is_valid(row)).collect();
    let levels: Option<Vec<i16>> =
        nullable.then(|| (0..array.len()).map(|row| i16::from(array.is_valid(row))).collect());
    let levels = levels.as_deref();
    match array.data_type() {
        DataType::Boolean => {
            let truths = array.as_boolean();
            let values: Vec<bool> = there.iter().map(|&row| truths.value(row)).collect();
            put::<stored::BoolType>(column, &values, levels)
        }
        DataType::UInt32 => {
            let values = values::<UInt32Type, _>(array.as_primitive(), &there, u32::cast_signed);
            put::<stored::Int32Type>(column, &values, levels)
        }
        DataType::UInt64 => {
            let values = values::<UInt64Type, _>(array.as_primitive(), &there, u64::cast_signed);
            put::<stored::Int64Type>(column, &values, levels)
        }
        DataType::Int64 => {
            let values = values::<Int64Type, _>(array.as_primitive(), &there, |value| value);
            put::<stored::Int64Type>(column, &values, levels)
        }
        DataType::Float64 => {
            let values = values::<Float64Type, _>(array.as_primitive(), &there, |value| value);
            put::<stored::DoubleType>(column, &values, levels)
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            let values: Vec<ByteArray> = there.iter().map(|&row| texts.value(row).into()).collect();
            put::<stored::ByteArrayType>(column, &values, levels)
        }
        DataType::Dictionary(..) => {
            let words = array.as_dictionary::<Int8Type>();
            let texts: Vec<ByteArray> =
                words.values().as_string::<i32>().iter().flatten().map(ByteArray::from).collect();
            let keys = words.keys().values();
            let text = |&row: &usize| texts[keys[row].cast_unsigned() as usize].clone();
            put::<stored::ByteArrayType>(column, &there.iter().map(text).collect::<Vec<_>>(), levels)
        }
        other => unreachable!("the file was started without a column of type {other}"),
    }
}

fn values<A: arrow_array::types::ArrowPrimitiveType, T>(
    array: &PrimitiveArray<A>,
    there: &[usize],
    stored: impl Fn(A::Native) -> T,
) -> Vec<T> {
    there.iter().map(|&row| stored(array.value(row))).collect()
}

fn put<T: stored::DataType>(
    column: &mut SerializedColumnWriter,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, levels, None).map(|_| ())
}
