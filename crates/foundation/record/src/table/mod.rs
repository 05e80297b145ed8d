//! Parquet tables of a fixed schema: rows in, a compressed file out, and back, checked.
//!
//! A table is a `Row` struct made by [`table!`] with an implementation of [`TableKind`]; writing and reading are the same
//! for all. Metadata is kept in the file, one `unrack.<field>` per field of the table's `Meta`, as JSON text.

mod cell;
mod guard;
mod read;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod write;

pub(crate) use cell::kind;
pub(crate) use cell::{Cell, Mismatch};
pub(crate) use read::{Batch, read};
pub use read::{read_batches, rows_of};
pub(crate) use write::Writer;
pub(crate) use write::properties;
pub use write::{Batches, to_batches};

use arrow_array::ArrayRef;
use arrow_schema::Field;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::RecordError;

/// Kind of table.
pub trait TableKind: Columnar {
    /// Metadata of the whole file.
    type Meta: Serialize + DeserializeOwned;
    /// Name of the table: `trace`, `completions`, ...
    const NAME: &'static str;

    /// Checks that `row` may follow `previous`; called for every row written and every row read.
    ///
    /// # Errors
    /// The rule that the row breaks.
    fn check(previous: Option<&Self>, row: &Self) -> Result<(), String> {
        let _ = (previous, row);
        Ok(())
    }
}

/// Rows that can be split into columns. Made by [`table!`].
pub trait Columnar: Copy + Sized {
    /// Columns, one vector each.
    type Columns: Default;

    /// Returns the names and types of the columns.
    fn fields() -> Vec<Field>;
    /// Appends a row to the columns.
    fn push(self, columns: &mut Self::Columns);
    /// Takes the collected columns, which start again empty.
    fn take(columns: &mut Self::Columns) -> Vec<ArrayRef>;
    /// Appends the rows of a batch.
    ///
    /// # Errors
    /// If a column is missing or has another type.
    fn read(batch: &Batch, rows: &mut Vec<Self>) -> Result<(), RecordError>;
}

/// Key of the metadata entry with the table's name.
pub(crate) const TABLE_KEY: &str = "unrack.table";

/// Declares a row and its conversion into columns of the same names and types.
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
            type Columns = Columns;

            fn fields() -> Vec<arrow_schema::Field> {
                use $crate::table::Cell;
                vec![$(<$type>::field(stringify!($field)),)*]
            }
            fn push(self, columns: &mut Columns) {
                $(columns.$field.push(self.$field);)*
            }
            fn take(columns: &mut Columns) -> Vec<arrow_array::ArrayRef> {
                use $crate::table::Cell;
                vec![$(<$type>::array(std::mem::take(&mut columns.$field)),)*]
            }
            fn read(
                batch: &$crate::table::Batch,
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
