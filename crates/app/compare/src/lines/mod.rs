//! Loads and stores of a program: how much slower it is with part of its memory far.
//!
//! ```text
//! calibration ------------+
//!                         v
//! native run, instrumented run -> windows -> cycles by latency --> delay / native run time -> slowdown
//!                         |                                          ^
//!                         +-> requests -> a fabric -> latency of each
//! ```
//! A [`LinesQuestion`](crate::LinesQuestion) takes these steps without fabrics, and a comparison by lines all of them.

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
