//! Batches come back from a file as they were written, whatever their types, lengths and gaps.

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use unrack_testing::TestFolder;

use super::{Stored, StoredWriter};

/// Returns a column of a type, and its values from `seeds`; where there is no seed, there is no value.
fn column(holds: &DataType, seeds: &[Option<u64>]) -> ArrayRef {
    let seeds = || seeds.iter().copied();
    match holds {
        DataType::Boolean => {
            Arc::new(seeds().map(|seed| seed.map(|seed| seed % 2 == 1)).collect::<BooleanArray>())
        }
        DataType::UInt32 => {
            Arc::new(seeds().map(|seed| seed.map(|seed| seed as u32)).collect::<PrimitiveArray<UInt32Type>>())
        }
        DataType::UInt64 => Arc::new(seeds().collect::<PrimitiveArray<UInt64Type>>()),
        DataType::Int64 => {
            Arc::new(seeds().map(|seed| seed.map(u64::cast_signed)).collect::<PrimitiveArray<Int64Type>>())
        }
        DataType::Float64 => Arc::new(
            seeds().map(|seed| seed.map(|seed| seed as f64 / 3.0)).collect::<PrimitiveArray<Float64Type>>(),
        ),
        DataType::Utf8 => {
            let text = |seed: u64| "ä".repeat(seed as usize % 5) + &(seed % 7).to_string();
            Arc::new(seeds().map(|seed| seed.map(text)).collect::<StringArray>())
        }
        other => unreachable!("{other}"),
    }
}

const TYPES: [DataType; 6] = [
    DataType::Boolean,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Int64,
    DataType::Float64,
    DataType::Utf8,
];

proptest! {
    #[test]
    fn batches_come_back(
        kinds in prop::collection::vec((prop::sample::select(&TYPES[..]), any::<bool>()), 1..5),
        groups in prop::collection::vec(prop::collection::vec(any::<Option<u64>>(), 0..200), 0..4),
        dictionary in any::<bool>(),
    ) {
        let name = |place: usize| format!("column {place}");
        let fields: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(place, (holds, nullable))| Field::new(name(place), holds.clone(), *nullable))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = |seeds: &Vec<Option<u64>>| {
            let seeds = |nullable: bool| -> Vec<_> {
                seeds.iter().map(|seed| seed.or((!nullable).then_some(9))).collect()
            };
            let columns = kinds.iter().map(|(holds, nullable)| column(holds, &seeds(*nullable))).collect();
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        };
        let batches: Vec<_> = groups.iter().map(batch).collect();

        let folder = TestFolder::new("stored");
        let path = folder.join("some.parquet");
        let properties = WriterProperties::builder().set_dictionary_enabled(dictionary).build();
        let mut writer = StoredWriter::new(File::create(&path).unwrap(), &schema, properties).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.append_key_value_metadata("key".into(), "value".into());
        writer.into_inner().unwrap();

        let stored = Stored::open(File::open(&path).unwrap()).unwrap();
        prop_assert_eq!(stored.rows(), groups.iter().map(Vec::len).sum::<usize>() as u64);
        prop_assert_eq!(stored.entries().iter().filter(|entry| entry.key == "key").count(), 1);
        prop_assert_eq!(stored.unread().count(), 0);
        prop_assert_eq!(&stored.schema(|_| true), &schema);
        let read: Vec<_> = stored.batches(&schema).map(Result::unwrap).collect();
        let written: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        prop_assert_eq!(&read, &written);

        // Any one of the columns alone.
        let first = stored.schema(|column| column == name(0));
        for (all, one) in written.iter().zip(stored.batches(&first)) {
            let one = one.unwrap();
            prop_assert_eq!(one.column(0), all.column(0));
        }
    }
}

/// A row group is read in several batches.
#[test]
fn long_groups_come_in_parts() {
    let folder = TestFolder::new("stored-long");
    let path = folder.join("some.parquet");
    let values: PrimitiveArray<UInt64Type> =
        (0..200_000_u64).map(|row| (row % 3 > 0).then_some(row)).collect();
    let batch = RecordBatch::try_from_iter([("n", Arc::new(values) as ArrayRef)]).unwrap();
    let schema = batch.schema();
    let mut writer =
        StoredWriter::new(File::create(&path).unwrap(), &schema, WriterProperties::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap();
    let stored = Stored::open(File::open(&path).unwrap()).unwrap();
    let mut from = 0;
    for part in stored.batches(&schema) {
        let part = part.unwrap();
        assert!(part.num_rows() <= 64 * 1024);
        assert_eq!(part.column(0), &batch.column(0).slice(from, part.num_rows()));
        from += part.num_rows();
    }
    assert_eq!(from, batch.num_rows());
}
