//! Runs of one program, natively and with part of its memory remote.
//!
//! ```text
//! survey: which runs, in which order -> runner -> maker: one run, and the load meanwhile -> kept
//!                                                                     kept -> conclusion: line, or why there is none
//! ```
//! This process makes the runs itself (`here`), or a child process makes them (`apart`, which talks to `serve`).

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
