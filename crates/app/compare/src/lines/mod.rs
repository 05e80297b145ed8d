//! Slowdown of a program with part of its memory far, estimated from its loads and stores.
//!
//! ```text
//! calibration ------------+
//!                         v
//! native run, instrumented run -> windows -> cycles by latency --> delay / native run time -> slowdown
//!                         |                                          ^
//!                         +-> requests -> a fabric -> latency of each
//! ```
//! A [`LinesQuestion`](crate::LinesQuestion) does these steps without fabrics; a comparison by lines does all of them.

pub(crate) mod answer;
mod by_thread;
pub(crate) mod calibration;
pub(crate) mod closed_loop;
pub(crate) mod estimate;
pub(crate) mod instrumented;
mod machine;
mod model;
pub(crate) mod native;
pub(crate) mod placed;
mod processes;
pub(crate) mod question;
pub(crate) mod recorded;
mod threads;
mod windows;
