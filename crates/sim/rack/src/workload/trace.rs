//! Replay of a captured program or of a list of flows.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Time, UnitError};

use super::{Blades, Margin};

/// Transfers that a file lists, to be replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Captured `trace.parquet`, or a list of flows: `src,dst,bytes,start_ns[,kind]` as CSV or Parquet.
    pub file: FileRef,
    /// Whether a transfer waits for earlier ones to complete. Default closed-loop.
    #[serde(default)]
    pub replay: Replay,
    /// Numbers of nodes that run the program and of nodes that hold its memory. Default: half of the nodes each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blades: Option<Blades>,
    /// Start times of the copies of the program. Default: random times within the length of one run.
    #[serde(default)]
    pub time_offsets: TimeOffsets,
    /// Messages or time at the beginning that are not counted. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub warm_up: Margin,
    /// Messages or time at the end that are not counted. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub cool_down: Margin,
}

/// Whether the progress of a program depends on the speed of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replay {
    /// Closed loop: a thread starts its next fetch after its previous fetch completed and after the computation that
    /// the program did in between.
    #[default]
    ClosedLoop,
    /// Open loop: every transfer starts at its captured time.
    OpenLoop,
}

/// Start times of the copies of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeOffsets {
    /// All copies start at once: `none`.
    None,
    /// Start times are uniformly random within the length of the captured run: `run`.
    #[default]
    Run,
    /// Start times are uniformly random within this time, for example `10ms`.
    Within(Time),
}

impl std::str::FromStr for TimeOffsets {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<TimeOffsets, UnitError> {
        match text {
            "none" => Ok(TimeOffsets::None),
            "run" => Ok(TimeOffsets::Run),
            time => time.parse().map(TimeOffsets::Within),
        }
    }
}

impl std::fmt::Display for TimeOffsets {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            TimeOffsets::None => f.pad("none"),
            TimeOffsets::Run => f.pad("run"),
            TimeOffsets::Within(time) => time.fmt(f),
        }
    }
}

crate::as_text::as_text!(TimeOffsets, "\"none\", \"run\" or a time such as \"10ms\"");

/// File that a scenario names. The name is relative to the file that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRef {
    /// Name as written in the scenario. Explanations and hashes use it, so that they do not depend on the folder of a
    /// scenario.
    pub written: String,
    /// Path at which this process opens the file.
    pub path: PathBuf,
}

crate::schema::schema_as_text!(FileRef);

impl Serialize for FileRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for FileRef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FileRef, D::Error> {
        let written = String::deserialize(deserializer)?;
        Ok(FileRef { path: PathBuf::from(&written), written })
    }
}
