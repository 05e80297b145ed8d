//! Map of a program's slowdown over latency, bandwidth and local share.

mod grid;
pub(crate) mod question;
