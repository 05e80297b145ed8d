//! Types of columns: conversion between Arrow's types and Parquet's.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, Type, TypePtr};

/// Returns the Parquet schema of a file with the columns of `schema`.
///
/// # Errors
/// If this module cannot write the type of a column.
pub(super) fn stored(schema: &Schema) -> Result<TypePtr, ParquetError> {
    let columns =
        schema.fields().iter().map(|field| column(field).map(Arc::new)).collect::<Result<_, _>>()?;
    Ok(Arc::new(Type::group_type_builder("unrack").with_fields(columns).build()?))
}

fn column(field: &Field) -> Result<Type, ParquetError> {
    let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
    let (physical, logical) = match field.data_type() {
        DataType::Boolean => (Physical::BOOLEAN, None),
        DataType::UInt32 => (Physical::INT32, unsigned(32)),
        DataType::UInt64 => (Physical::INT64, unsigned(64)),
        DataType::Int64 => (Physical::INT64, None),
        DataType::Float64 => (Physical::DOUBLE, None),
        DataType::Utf8 | DataType::Dictionary(..) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        other => return Err(ParquetError::NYI(format!("column `{}` of type {other}", field.name()))),
    };
    let repetition = if field.is_nullable() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(field.name(), physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

/// Returns the Arrow type of the values in a column, or as an error a description of a type that this module cannot read.
pub(super) fn arrow(column: &ColumnDescriptor) -> Result<DataType, String> {
    if column.path().parts().len() > 1 || column.max_rep_level() > 0 {
        return Err("lists or groups".into());
    }
    let (physical, logical, converted) =
        (column.physical_type(), column.logical_type_ref(), column.converted_type());
    let bits = match (logical, converted) {
        (Some(LogicalType::Integer(of)), _) => Some((of.bit_width, of.is_signed)),
        (None, ConvertedType::UINT_32) => Some((32, false)),
        (None, ConvertedType::UINT_64) => Some((64, false)),
        (None, ConvertedType::INT_32) => Some((32, true)),
        (None, ConvertedType::INT_64) => Some((64, true)),
        _ => None,
    };
    let plain = logical.is_none() && converted == ConvertedType::NONE;
    let text = matches!(logical, Some(LogicalType::String)) || converted == ConvertedType::UTF8;
    match (physical, bits) {
        (Physical::INT32, Some((32, false))) => Ok(DataType::UInt32),
        (Physical::INT32, Some((32, true))) => Ok(DataType::Int32),
        (Physical::INT64, Some((64, false))) => Ok(DataType::UInt64),
        (Physical::INT64, Some((64, true))) => Ok(DataType::Int64),
        (Physical::INT32, None) if plain => Ok(DataType::Int32),
        (Physical::INT64, None) if plain => Ok(DataType::Int64),
        (Physical::BOOLEAN, None) if plain => Ok(DataType::Boolean),
        (Physical::FLOAT, None) if plain => Ok(DataType::Float32),
        (Physical::DOUBLE, None) if plain => Ok(DataType::Float64),
        (Physical::BYTE_ARRAY, None) if text => Ok(DataType::Utf8),
        _ => Err(match logical {
            Some(logical) => format!("{physical} as {logical:?}"),
            None => format!("{physical} as {converted}"),
        }),
    }
}
