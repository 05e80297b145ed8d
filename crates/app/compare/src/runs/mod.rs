//! Runs of one program, natively and with part of its memory remote.
//!
//! ```text
//! survey: which runs, in which order -> runner -> maker: one run, and the machine beside it -> kept
//!                                                                     kept -> conclusion: line, or why there is none
//! ```
//! Runs are made by this process (`here`), or by a command of its own (`apart`, which talks with `serve`).

pub(crate) mod apart;
pub(crate) mod conclusion;
pub(crate) mod here;
pub(crate) mod kept;
mod line;
pub(crate) mod maker;
pub(crate) mod program;
pub(crate) mod runner;
pub(crate) mod serve;
pub(crate) mod survey;
pub(crate) mod task;
mod wire;
