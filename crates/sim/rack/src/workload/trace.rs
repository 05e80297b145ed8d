//! Replay of a captured program, or of a list of flows.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Time, UnitError};

use super::{Blades, Margin};

/// Transfers that a file lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// Captured `trace.parquet`, or flows: `src,dst,bytes,start_ns[,kind]` as CSV or Parquet.
    pub file: FileRef,
    /// Whether transfers wait for earlier ones. Default closed-loop.
    #[serde(default)]
    pub replay: Replay,
    /// Numbers of nodes that run the program and that hold its memory. Default: half and half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blades: Option<Blades>,
    /// Start of each copy of the program. Default: anywhere within the length of one run.
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

/// Dependence of the program on the speed of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replay {
    /// Closed loop: a thread's next fetch follows the completion of the one before, after the program's own computing
    /// in between.
    #[default]
    ClosedLoop,
    /// Open loop: every transfer at its captured time.
    OpenLoop,
}

/// Start times of the copies of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeOffsets {
    /// All at once: `none`.
    None,
    /// Uniformly random within the length of the captured run: `run`.
    #[default]
    Run,
    /// Uniformly random within this time: `10ms`.
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

/// File that a scenario names, relative to the file that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRef {
    /// Name as written: used in explanations and hashes, which do not depend on where a scenario lies.
    pub written: String,
    /// Path by which this process opens it.
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
