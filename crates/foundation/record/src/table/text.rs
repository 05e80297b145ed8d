//! Columns that contain only a few known words. They are written as a dictionary, and read from any text column.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int8Array, StringArray};
use arrow_schema::{DataType, Field};

use unrack_input::clipped;

use super::cell::{ColumnMismatch, no_nulls, typed};

pub(crate) fn field(name: &str) -> Field {
    let words = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    Field::new(name, words, false)
}

/// Returns a column of words, given as indices (`keys`) into `words`.
pub(crate) fn array(words: &[&str], keys: impl Iterator<Item = i8>) -> ArrayRef {
    let words = Arc::new(StringArray::from(words.to_vec()));
    Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from_iter_values(keys), words))
}

pub(crate) fn values<T: Copy>(
    array: &dyn Array,
    words: &[&str],
    from_name: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ColumnMismatch> {
    let texts = typed::<StringArray>(array)?;
    no_nulls(array)?;
    let value = |row| {
        let text: &str = texts.value(row);
        let unknown = || format!("`{}` is not one of {}", clipped(text), words.join(", "));
        from_name(text).ok_or_else(|| ColumnMismatch::Row(row, unknown()))
    };
    (0..texts.len()).map(value).collect()
}
