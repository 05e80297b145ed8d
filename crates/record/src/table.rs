//! Parquet tables of a fixed schema: rows in, a compressed file out, and back, checked.
//!
//! A table is a `Row` struct made by [`table!`] plus an implementation of [`Table`]; writing and
//! reading are the same for all. Metadata is kept in the file, one `unrack.<field>` per field of
//! the table's `Meta`, as JSON text.

mod cell;
mod guard;
mod read;
pub(crate) mod text;
mod write;

pub(crate) use cell::kind;
pub use cell::{Cell, Mismatch};
pub use read::rows_of;
pub(crate) use read::{Batch, read};
pub use write::Writer;
pub(crate) use write::properties;

use arrow_array::ArrayRef;
use arrow_schema::Field;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::RecordError;

/// One kind of table.
pub trait Table: Columnar {
    /// What is known of the whole file.
    type Meta: Serialize + DeserializeOwned;
    /// `trace`, `completions`, ...
    const NAME: &'static str;

    /// Whether `row` may follow `previous`: checked for every row written and every row read.
    fn check(previous: Option<&Self>, row: &Self) -> Result<(), String> {
        let _ = (previous, row);
        Ok(())
    }
}

/// Rows that can be taken apart into columns. Made by [`table!`].
pub trait Columnar: Copy + Sized {
    /// One vector for each column.
    type Columns: Default;

    fn fields() -> Vec<Field>;
    fn push(self, columns: &mut Self::Columns);
    /// The columns gathered so far, which start again empty.
    fn take(columns: &mut Self::Columns) -> Vec<ArrayRef>;
    fn read(batch: &Batch, rows: &mut Vec<Self>) -> Result<(), RecordError>;
}

/// Key of the metadata entry that says which table a file is.
pub(crate) const TABLE_KEY: &str = "unrack.table";

/// Declares a row and how it becomes columns of the same names and types.
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
