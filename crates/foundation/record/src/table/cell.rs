//! Value types of columns, and their Arrow representation.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, Field};

/// Reason why a column cannot be read: the type of the whole column, or one of its rows.
#[derive(Debug, PartialEq)]
pub enum ColumnMismatch {
    Type,
    Row(usize, String),
}

/// A type that a column can have as its values.
pub trait ColumnValue: Copy {
    /// Type of the column, as named in error messages.
    const HOLDS: &'static str;

    /// Returns the Arrow field (name and type) of a column.
    fn field(name: &str) -> Field;
    /// Converts values into an Arrow array.
    fn array(values: Vec<Self>) -> ArrayRef;
    /// Converts an Arrow array into values.
    ///
    /// # Errors
    /// If the array has another type, or a value is missing.
    fn values(array: &dyn Array) -> Result<Vec<Self>, ColumnMismatch>;
}

macro_rules! number_cell {
    ($type:ty, $arrow:ty, $holds:literal $(, or $narrow:ty)?) => {
        impl ColumnValue for $type {
            const HOLDS: &'static str = $holds;

            fn field(name: &str) -> Field {
                Field::new(name, <$arrow>::DATA_TYPE, false)
            }
            fn array(values: Vec<$type>) -> ArrayRef {
                Arc::new(PrimitiveArray::<$arrow>::from(values))
            }
            fn values(array: &dyn Array) -> Result<Vec<$type>, ColumnMismatch> {
                $(if let Ok(numbers) = typed::<PrimitiveArray<$narrow>>(array) {
                    no_nulls(array)?;
                    return Ok(numbers.values().iter().map(|number| (*number).into()).collect());
                })?
                let numbers = typed::<PrimitiveArray<$arrow>>(array)?;
                no_nulls(array)?;
                Ok(numbers.values().to_vec())
            }
        }
    };
}
number_cell!(u32, UInt32Type, "UInt32");
// Columns that were 32 bits wide in an earlier release are accepted too.
number_cell!(u64, UInt64Type, "UInt64", or UInt32Type);
number_cell!(f64, Float64Type, "Float64");

/// An optional value, stored as null if absent.
impl ColumnValue for Option<u64> {
    const HOLDS: &'static str = "UInt64 or nothing";

    fn field(name: &str) -> Field {
        Field::new(name, DataType::UInt64, true)
    }
    fn array(values: Vec<Option<u64>>) -> ArrayRef {
        Arc::new(PrimitiveArray::<UInt64Type>::from(values))
    }
    fn values(array: &dyn Array) -> Result<Vec<Option<u64>>, ColumnMismatch> {
        Ok(typed::<PrimitiveArray<UInt64Type>>(array)?.iter().collect())
    }
}

pub(crate) fn typed<A: Array + 'static>(array: &dyn Array) -> Result<&A, ColumnMismatch> {
    array.as_any().downcast_ref().ok_or(ColumnMismatch::Type)
}

pub(crate) fn no_nulls(array: &dyn Array) -> Result<(), ColumnMismatch> {
    match (0..array.len()).find(|&i| array.is_null(i)) {
        Some(row) if array.null_count() > 0 => Err(ColumnMismatch::Row(row, "the value is missing".into())),
        _ => Ok(()),
    }
}

/// Declares an enum whose variants have names in files, and its column type (a dictionary of text).
macro_rules! kind {
    ($(#[$doc:meta])* pub enum Kind { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$variant_doc])* $variant,)*
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$variant,)*];
            const NAMES: &[&str] = &[$($name,)*];

            /// Returns the name in files.
            pub const fn name(self) -> &'static str {
                Kind::NAMES[self as usize]
            }
            /// Returns the kind of this name.
            pub fn from_name(name: &str) -> Option<Kind> {
                Kind::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }

        impl std::fmt::Display for Kind {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::table::ColumnValue for Kind {
            const HOLDS: &'static str = "text";

            fn field(name: &str) -> arrow_schema::Field {
                $crate::table::text::field(name)
            }
            fn array(values: Vec<Kind>) -> arrow_array::ArrayRef {
                $crate::table::text::array(Kind::NAMES, values.into_iter().map(|kind| kind as i8))
            }
            fn values(array: &dyn arrow_array::Array) -> Result<Vec<Kind>, $crate::table::ColumnMismatch> {
                $crate::table::text::values(array, Kind::NAMES, Kind::from_name)
            }
        }
    };
}
pub(crate) use kind;
