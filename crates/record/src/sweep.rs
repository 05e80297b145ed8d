//! `sweep.json` and `sweep.parquet` of `unrack sweep`: one row for each point of a grid of scenarios.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use serde::{Deserialize, Serialize};

use crate::{AtomicFile, RecordError};

/// A grid of scenarios, run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub version: String,
    /// Keys of scenarios of which the values differ from point to point.
    pub keys: Vec<String>,
    /// In the order of the grid: the last key varies fastest, and seeds faster than that.
    pub points: Vec<SweepPoint>,
}

/// One scenario of the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// One for each of [`Sweep::keys`], as given.
    pub values: Vec<String>,
    #[serde(flatten)]
    pub figures: Figures,
}

/// What is kept of one simulation. It depends on the scenario and the version alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub fabric: String,
    pub seed: u64,
    pub nodes: u64,
    pub messages: u64,
    pub completed: u64,
    pub dropped_packets: u64,
    /// Completion over that of the same message alone on the same fabric. `None`: no message counted.
    pub slowdown_mean: Option<f64>,
    pub slowdown_p50: Option<f64>,
    pub slowdown_p99: Option<f64>,
    pub slowdown_p999: Option<f64>,
    pub slowdown_max: Option<f64>,
    pub completion_mean_ns: Option<f64>,
    pub completion_p99_ns: Option<f64>,
    /// Payload of all messages over the time from the first submission to the last completion.
    pub throughput_gbps: f64,
    /// Bytes found waiting ahead by data packets at switch ports.
    pub queue_mean_bytes: f64,
    pub queue_p99_bytes: u64,
    pub queue_max_bytes: u64,
    pub sim_time_ns: f64,
    pub events: u64,
    pub packet_hops: u64,
}

impl Sweep {
    /// A column for each key (text) and each figure.
    pub fn write_parquet(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        let path = path.as_ref();
        let batch = RecordBatch::try_from_iter_with_nullable(self.columns())
            .expect("all columns have a value for each point");
        let failed = |why: ParquetError| RecordError::io("write", path)(std::io::Error::other(why));
        let mut writer =
            ArrowWriter::try_new(AtomicFile::create(path)?, batch.schema(), None).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
        writer.into_inner().map_err(failed)?.commit()
    }

    fn columns(&self) -> Vec<(String, ArrayRef, bool)> {
        let text = |of: &dyn Fn(&SweepPoint) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.points.iter().map(of)))
        };
        let whole = |of: fn(&Figures) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(self.points.iter().map(|point| of(&point.figures))))
        };
        let real = |of: fn(&Figures) -> Option<f64>| -> ArrayRef {
            Arc::new(Float64Array::from_iter(self.points.iter().map(|point| of(&point.figures))))
        };
        let keys = self.keys.iter().enumerate().map(|(n, key)| (key.clone(), text(&|p| &p.values[n]), false));
        let figures = [
            ("fabric", text(&|point| &point.figures.fabric), false),
            ("seed", whole(|f| f.seed), false),
            ("nodes", whole(|f| f.nodes), false),
            ("messages", whole(|f| f.messages), false),
            ("completed", whole(|f| f.completed), false),
            ("dropped_packets", whole(|f| f.dropped_packets), false),
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
        keys.chain(figures.into_iter().map(|(name, column, null)| (name.to_string(), column, null))).collect()
    }
}
