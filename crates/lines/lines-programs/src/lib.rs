//! Programs as the kernel would execute them: the command runs the first under QEMU, the plugin those that a program starts.
//!
//! It is a crate because of linkage: the plugin, a library inside QEMU, must not contain `lines-run`, which is outside; and
//! `lines`, which both use, knows no files.
//!
//! | module | tells |
//! |---|---|
//! | [`program`] | which file runs, with which arguments; and what QEMU cannot run |
//! | [`environment`] | which variables QEMU itself must not see |
#![forbid(unsafe_code)]

mod environment;
mod program;

pub use environment::split;
pub use program::{LeftToKernel, ResolvedProgram, no_option, resolve};
