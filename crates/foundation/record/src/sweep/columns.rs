//! Columns of `sweep.parquet`. Every column name is unique, and every column is typed.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use parquet::errors::ParquetError;

use super::{Figures, Sweep, SweepPoint, axis};
use crate::storage::StoredWriter;
use crate::table::{TABLE_KEY, properties};
use crate::{AtomicFile, RecordError};

/// Name of a column, its values, and whether values may be absent.
type SweepColumn = (String, ArrayRef, bool);

/// Key whose values are also a figure of each simulation, so that it gets no separate column.
const SEED: &str = "seed";

impl Sweep {
    /// Writes one row per point. The columns are: one column per key except the seed, typed by its values (see the module `axis`); the hash
    /// of the scenario; and one column per figure, including the seed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_parquet(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        let path = path.as_ref();
        let columns = self.columns();
        let field =
            |(name, values, may_lack): &SweepColumn| Field::new(name, values.data_type().clone(), *may_lack);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, values, _)| values).collect();
        let batch =
            RecordBatch::try_new(schema.clone(), arrays).expect("all columns have a value for each point");
        let failed = |why: ParquetError| RecordError::io("write", path)(std::io::Error::other(why));
        let file = AtomicFile::create(path)?;
        let mut writer = StoredWriter::new(file, &schema, properties(&schema)).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
        writer.append_key_value_metadata(TABLE_KEY.into(), "sweep".into());
        writer.into_inner().map_err(failed)?.commit()
    }

    fn columns(&self) -> Vec<SweepColumn> {
        let figures = self.figure_columns();
        let mut columns: Vec<SweepColumn> = Vec::new();
        for (n, key) in self.keys.iter().enumerate().filter(|(_, key)| *key != SEED) {
            let texts: Vec<&str> = self.points.iter().map(|point| point.values[n].as_str()).collect();
            let (mut name, values) = axis::column(key, &texts);
            while figures.iter().chain(&columns).any(|(taken, ..)| *taken == name) {
                name.insert_str(0, "set.");
            }
            columns.push((name, values, false));
        }
        columns.extend(figures);
        columns
    }

    fn figure_columns(&self) -> Vec<SweepColumn> {
        let text = |of: fn(&SweepPoint) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.points.iter().map(of)))
        };
        let whole = |of: fn(&Figures) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(self.points.iter().map(|point| of(&point.figures))))
        };
        let real = |of: fn(&Figures) -> Option<f64>| -> ArrayRef {
            Arc::new(Float64Array::from_iter(self.points.iter().map(|point| of(&point.figures))))
        };
        let figures = [
            ("scenario_hash", text(|point| &point.scenario_hash), false),
            ("fabric", text(|point| &point.figures.fabric), false),
            (SEED, whole(|f| f.seed), false),
            ("nodes", whole(|f| f.nodes), false),
            ("messages", whole(|f| f.messages), false),
            ("completed", whole(|f| f.completed), false),
            ("dropped_packets", whole(|f| f.dropped_packets), false),
            ("trimmed_packets", whole(|f| f.trimmed_packets), false),
            ("slowdown_mean", real(|f| f.slowdown_mean), true),
            ("slowdown_p50", real(|f| f.slowdown_p50), true),
            ("slowdown_p99", real(|f| f.slowdown_p99), true),
            ("slowdown_p999", real(|f| f.slowdown_p999), true),
            ("slowdown_max", real(|f| f.slowdown_max), true),
            ("completion_mean_ns", real(|f| f.completion_mean_ns), true),
            ("completion_p99_ns", real(|f| f.completion_p99_ns), true),
            ("throughput_gbps", real(|f| Some(f.throughput_gbps)), false),
            ("queue_mean_bytes", real(|f| Some(f.queue_mean_bytes)), false),
            ("queue_p99_bytes", whole(|f| f.queue_p99_bytes), false),
            ("queue_max_bytes", whole(|f| f.queue_max_bytes), false),
            ("sim_time_ns", real(|f| Some(f.sim_time_ns)), false),
            ("events", whole(|f| f.events), false),
            ("packet_hops", whole(|f| f.packet_hops), false),
        ];
        figures.into_iter().map(|(name, column, may_lack)| (name.to_string(), column, may_lack)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_schema::DataType;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn sweep(keys: &[&str], rows: &[&[&str]]) -> Sweep {
        let point = |values: &&[&str]| SweepPoint {
            values: values.iter().map(|value| value.to_string()).collect(),
            notes: Vec::new(),
            scenario_hash: "5eed".into(),
            figures: Figures {
                fabric: "edm".into(),
                seed: 7,
                nodes: 2,
                messages: 1,
                completed: 1,
                dropped_packets: 0,
                trimmed_packets: 0,
                slowdown_mean: Some(1.5),
                slowdown_p50: None,
                slowdown_p99: None,
                slowdown_p999: None,
                slowdown_max: None,
                completion_mean_ns: None,
                completion_p99_ns: None,
                throughput_gbps: 0.0,
                queue_mean_bytes: 0.0,
                queue_p99_bytes: 0,
                queue_max_bytes: 0,
                sim_time_ns: 0.0,
                events: 0,
                packet_hops: 0,
            },
        };
        let keys = keys.iter().map(|key| key.to_string()).collect();
        Sweep { version: String::new(), keys, points: rows.iter().map(point).collect() }
    }

    fn named<'a>(columns: &'a [SweepColumn], name: &str) -> &'a dyn Array {
        let found: Vec<_> = columns.iter().filter(|(of, ..)| of == name).collect();
        assert_eq!(found.len(), 1, "{name}: {columns:?}");
        &found[0].1
    }

    #[test]
    fn a_seed_is_one_column() {
        let columns = sweep(&["workload.load", "seed"], &[&["0.2", "1"], &["0.2", "2"]]).columns();
        assert_eq!(named(&columns, "seed").data_type(), &DataType::UInt64);
        assert_eq!(named(&columns, "workload.load").data_type(), &DataType::Float64);
    }

    #[test]
    fn a_key_named_like_a_figure_keeps_a_column_of_its_own() {
        let columns =
            sweep(&["fabric"], &[&["{ protocol = \"edm\" }"], &["{ protocol = \"cxl\" }"]]).columns();
        named(&columns, "fabric");
        assert_eq!(named(&columns, "set.fabric").data_type(), &DataType::Utf8);
    }

    proptest! {
        #[test]
        fn names_are_unique_whatever_the_keys(
            keys in prop::collection::btree_set("seed|fabric|nodes|events|[a-c](_ns|_bytes)?|set.fabric", 0..6),
            value in "1|2ns|3B|x",
        ) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let row = vec![value.as_str(); keys.len()];
            let columns = sweep(&keys, &[&row]).columns();
            let names: BTreeSet<&str> = columns.iter().map(|(name, ..)| name.as_str()).collect();
            prop_assert_eq!(names.len(), columns.len());
            let of_keys = keys.iter().filter(|key| **key != SEED).count();
            prop_assert_eq!(columns.len(), of_keys + sweep(&[], &[]).columns().len());
        }
    }
}
