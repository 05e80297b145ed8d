//! `explain.json`, the breakdown of one message's time, as `unrack sim --explain` writes it.

use serde::Deserialize;

/// Time of one message, divided by where and why it was spent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExplainedMessage {
    pub message: u64,
    pub kind: String,
    pub bytes: u64,
    pub src: u32,
    pub dst: u32,
    pub submitted_ns: f64,
    pub completion_ns: f64,
    /// Completion time that the message would have alone on the same fabric.
    pub unloaded_ns: f64,
    /// Parts of the time in order, without gaps.
    pub parts: Vec<ExplainedPart>,
}

/// Period of the message's time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExplainedPart {
    pub from_ns: f64,
    pub time_ns: f64,
    pub cause: String,
    #[serde(rename = "where")]
    pub place: String,
}
