//! Programs as the kernel would execute them, for whoever runs them under QEMU: the command for the first, the plugin for
//! those that a program starts.
//!
//! | module | tells |
//! |---|---|
//! | [`program`] | which file runs, with which arguments; and what QEMU cannot run |
//! | [`environment`] | which variables QEMU itself must not see |
#![forbid(unsafe_code)]

mod environment;
mod program;

pub use environment::split;
pub use program::{Left, ResolvedProgram, no_option, resolve};
