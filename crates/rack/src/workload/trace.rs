//! The replay of a captured program, or of a list of flows.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Time, UnitError};

use super::{Blades, Margin};

/// Transfers that a file lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// A captured `trace.parquet`, or flows: `src,dst,bytes,start_ns[,kind]` as CSV or Parquet.
    pub file: FileRef,
    /// Default closed-loop.
    #[serde(default)]
    pub replay: Replay,
    /// How many nodes run the program and how many hold its memory. Default: half and half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blades: Option<Blades>,
    /// When each copy of the program starts. Default: anywhere within the length of one run.
    #[serde(default)]
    pub time_offsets: TimeOffsets,
    /// Not counted at the beginning. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub warm_up: Margin,
    /// Not counted at the end. Default nothing.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub cool_down: Margin,
}

/// Whether a slow network slows the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replay {
    /// A thread's next fetch follows the completion of the one before, after the program's own
    /// computing in between.
    #[default]
    ClosedLoop,
    /// Every transfer at its captured time.
    OpenLoop,
}

/// When the copies of a program start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeOffsets {
    /// `none`: all at once.
    None,
    /// `run`: each at a time of its own, uniformly within the length of the captured run.
    #[default]
    Run,
    /// `10ms`: the same, within this time.
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

/// A file that a scenario names, relative to the file that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRef {
    /// As written: in explanations and hashes, which do not depend on where a scenario lies.
    pub written: String,
    /// As this process opens it.
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
