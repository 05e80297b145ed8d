//! Parquet tables with a fixed schema: writes rows to a compressed file, and reads and checks them.
//!
//! A table consists of a `Row` struct made by [`table!`] and an implementation of [`TableKind`]. The code for writing and reading is the
//! same for all tables. The metadata are stored in the file as JSON text, with one entry `unrack.<field>` for each field of the table's
//! `Meta`.

mod cell;
mod guard;
mod read;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod write;

pub(crate) use cell::kind;
pub(crate) use cell::{ColumnMismatch, ColumnValue};
pub(crate) use read::{RowBatch, read};
pub use read::{read_batches, rows_of};
pub(crate) use write::Writer;
pub(crate) use write::properties;
pub use write::{RowBatches, to_batches};

use arrow_array::ArrayRef;
use arrow_schema::Field;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::RecordError;

/// A kind of table.
pub trait TableKind: Columnar {
    /// Metadata that apply to the whole file.
    type Meta: Serialize + DeserializeOwned;
    /// Name of the table, for example `trace` or `completions`.
    const NAME: &'static str;

    /// Checks that `row` may follow `previous`. Called for every row that is written or read.
    ///
    /// # Errors
    /// The rule that the row violates.
    fn check(previous: Option<&Self>, row: &Self) -> Result<(), String> {
        let _ = (previous, row);
        Ok(())
    }
}

/// Rows that can be converted into columns. Implemented by [`table!`].
pub trait Columnar: Copy + Sized {
    /// The columns, one vector per column.
    type ColumnSet: Default;

    /// Returns the names and types of the columns.
    fn fields() -> Vec<Field>;
    /// Appends a row to the columns.
    fn push(self, columns: &mut Self::ColumnSet);
    /// Returns the collected columns, and empties them.
    fn take(columns: &mut Self::ColumnSet) -> Vec<ArrayRef>;
    /// Appends the rows of a batch to `rows`.
    ///
    /// # Errors
    /// If a column is missing or has another type.
    fn read(batch: &RowBatch, rows: &mut Vec<Self>) -> Result<(), RecordError>;
}

/// Key of the metadata entry that contains the table's name.
pub(crate) const TABLE_KEY: &str = "unrack.table";

/// Declares a row struct, and its conversion into columns with the same names and types.
macro_rules! table {
    ($(#[$doc:meta])* pub struct Row { $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Row {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        #[doc(hidden)]
        #[derive(Default)]
        pub struct Columns {
            $($field: Vec<$type>,)*
        }

        impl $crate::table::Columnar for Row {
            type ColumnSet = Columns;

            fn fields() -> Vec<arrow_schema::Field> {
                use $crate::table::ColumnValue;
                vec![$(<$type>::field(stringify!($field)),)*]
            }
            fn push(self, columns: &mut Columns) {
                $(columns.$field.push(self.$field);)*
            }
            fn take(columns: &mut Columns) -> Vec<arrow_array::ArrayRef> {
                use $crate::table::ColumnValue;
                vec![$(<$type>::array(std::mem::take(&mut columns.$field)),)*]
            }
            fn read(
                batch: &$crate::table::RowBatch,
                rows: &mut Vec<Row>,
            ) -> Result<(), $crate::RecordError> {
                $(let $field = batch.column::<$type>(stringify!($field))?;)*
                rows.extend((0..batch.len()).map(|i| Row { $($field: $field[i],)* }));
                Ok(())
            }
        }
    };
}
pub(crate) use table;
