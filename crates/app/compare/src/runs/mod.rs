//! Runs of one program, natively and with part of its memory remote.
//!
//! ```text
//! survey: which runs, in which order -> runner: one run, and the machine beside it -> kept
//!                                                                     kept -> conclusion: line, or why there is none
//! ```

pub(crate) mod conclusion;
pub(crate) mod kept;
mod line;
pub(crate) mod program;
pub(crate) mod runner;
pub(crate) mod survey;
pub(crate) mod task;
