//! Tables of other programs are read if they have what is needed, and refused with a reason.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use unrack_testing::TestFolder;

use super::properties;
use crate::storage::StoredWriter;
use crate::{RecordError, completions, messages, ports, read_batches};

/// Writes a table as another program might: with these columns and this metadata.
fn write_foreign(path: &Path, columns: Vec<(&str, ArrayRef)>, metadata: &[(&str, &str)]) {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = StoredWriter::new(file, &batch.schema(), properties(&batch.schema())).unwrap();
    writer.write(&batch).unwrap();
    metadata.iter().for_each(|(key, value)| writer.append_key_value_metadata((*key).into(), (*value).into()));
    writer.into_inner().unwrap();
}

const COMPLETIONS_META: &[(&str, &str)] = &[("unrack.fabric", "\"mine\""), ("unrack.link_rate_bps", "1000")];

fn foreign_columns(kinds: &[Option<&str>]) -> Vec<(&'static str, ArrayRef)> {
    let numbers = |n: u64| Arc::new(UInt64Array::from(vec![n; kinds.len()])) as ArrayRef;
    vec![
        ("ideal_ps", numbers(3)),
        ("kind", Arc::new(StringArray::from(kinds.to_vec()))),
        ("bytes", Arc::new(UInt32Array::from(vec![64; kinds.len()]))),
        ("extra", numbers(0)),
        ("completion_ps", numbers(7)),
    ]
}

#[test]
fn a_table_of_another_program_is_read() {
    let folder = TestFolder::new("foreign");
    let path = folder.join("some.parquet");
    write_foreign(&path, foreign_columns(&[Some("fetch"), Some("write-back")]), COMPLETIONS_META);
    let (meta, rows) = completions::read(&path).unwrap();
    assert_eq!(meta, completions::Meta { fabric: "mine".into(), link_rate_bps: 1000 });
    let row = |kind| completions::Row { kind, bytes: 64, completion_ps: 7, ideal_ps: 3 };
    assert_eq!(rows, [row(completions::Kind::Fetch), row(completions::Kind::WriteBack)]);
}

#[test]
fn messages_whose_ideal_time_was_the_unloaded_one_are_refused() {
    let folder = TestFolder::new("earlier");
    let path = folder.join("messages.parquet");
    let numbers = Arc::new(UInt64Array::from(vec![3])) as ArrayRef;
    let slowdown = Arc::new(arrow_array::Float64Array::from(vec![1.0])) as ArrayRef;
    let earlier = vec![("id", numbers.clone()), ("ideal_ps", numbers.clone()), ("slowdown", slowdown)];
    write_foreign(&path, earlier.clone(), &[("unrack.fabric", "\"mine\"")]);
    let said = [messages::read(&path).unwrap_err().to_string(), read_batches(&path).unwrap_err().to_string()];
    assert!(said.iter().all(|said| said.contains("`ideal_ps` held the unloaded time")), "{said:?}");
    write_foreign(&path, [&earlier[..], &[("unloaded_ps", numbers)]].concat(), &[]);
    assert_eq!(read_batches(&path).unwrap().0.fields().len(), 4);
}

#[test]
fn sizes_of_32_bits_and_of_64_are_read() {
    let folder = TestFolder::new("narrow");
    let path = folder.join("some.parquet");
    let bytes = |array: ArrayRef| {
        let mut columns = foreign_columns(&[Some("fetch"), Some("fetch")]);
        columns[2].1 = array;
        write_foreign(&path, columns, COMPLETIONS_META);
        completions::read(&path).map(|(_, rows)| rows.iter().map(|row| row.bytes).collect::<Vec<_>>())
    };
    // As written up to version 0.1, and since.
    let narrow = bytes(Arc::new(UInt32Array::from(vec![4096, u32::MAX])));
    assert_eq!(narrow.unwrap(), [4096, u32::MAX.into()]);
    let wide = bytes(Arc::new(UInt64Array::from(vec![4096, 5 << 30])));
    assert_eq!(wide.unwrap(), [4096, 5 << 30]);
    let missing = bytes(Arc::new(UInt32Array::from(vec![Some(4096), None])));
    assert!(missing.unwrap_err().to_string().contains("row 1: column `bytes`: the value is missing"));
}

/// Returns the error of reading, without the path in front.
fn refusal(path: &Path) -> String {
    let message = completions::read(path).unwrap_err().to_string();
    message.replace(&*path.to_string_lossy(), "FILE")
}

#[test]
fn refusals_name_the_column_and_the_row() {
    let folder = TestFolder::new("refusals");
    let path = folder.join("some.parquet");
    let write = |columns| write_foreign(&path, columns, COMPLETIONS_META);

    let mut columns = foreign_columns(&[Some("fetch")]);
    columns.retain(|(name, _)| *name != "bytes");
    write(columns);
    assert_eq!(refusal(&path), "FILE has no column `bytes` (UInt64)");

    let mut columns = foreign_columns(&[Some("fetch")]);
    columns[4].1 = Arc::new(Int64Array::from(vec![7]));
    write(columns);
    assert_eq!(refusal(&path), "FILE: column `completion_ps` holds Int64, where UInt64 is needed");

    write(foreign_columns(&[Some("fetch"), Some("fetsch")]));
    assert_eq!(refusal(&path), "FILE, row 1: column `kind`: `fetsch` is not one of fetch, write-back");

    write(foreign_columns(&[Some("fetch"), None]));
    assert_eq!(refusal(&path), "FILE, row 1: column `kind`: the value is missing");
}

#[test]
fn refusals_name_the_metadata() {
    let folder = TestFolder::new("refusals-meta");
    let path = folder.join("some.parquet");
    let write = |metadata| write_foreign(&path, foreign_columns(&[Some("fetch")]), metadata);
    write(&[("unrack.fabric", "\"mine\"")]);
    assert_eq!(
        refusal(&path),
        "FILE: the metadata is not that of a completions table: missing field `link_rate_bps`"
    );
    write(&[("unrack.fabric", "mine")]);
    let message = refusal(&path);
    assert!(message.contains("`unrack.fabric`: expected value at line 1 column 1"), "{message}");
    let other = ports::Writer::create(&path).unwrap();
    other.finish(&ports::Meta { fabric: "edm".into(), interval_ps: 0 }).unwrap();
    assert_eq!(refusal(&path), "FILE is a ports table, where a completions table is needed");
    std::fs::write(&path, "id,src\n").unwrap();
    assert!(matches!(completions::read(&path), Err(RecordError::Damaged { .. })));
    std::fs::remove_file(&path).unwrap();
    let message = refusal(&path);
    assert!(message.starts_with("cannot read FILE: "), "{message}");
}
