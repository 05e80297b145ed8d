//! Finds the file and the arguments that the Linux kernel would use to execute a program, so that QEMU can run the
//! program instead. `lines-run` starts the first program under QEMU, and the plugin inside QEMU starts the programs
//! that this program executes.
//!
//! This code is a separate crate because both the plugin and `lines-run` need it. The plugin is a library that QEMU
//! loads, so it must not contain `lines-run`, which runs outside QEMU. It is not a part of the crate `lines`, which the
//! plugin and `lines-run` also use, because `lines` does not access files.
//!
//! | module | determines |
//! |---|---|
//! | [`program`] | which file runs with which arguments, and which programs QEMU cannot run |
//! | [`environment`] | which variables of the environment must not be set for QEMU itself |
#![forbid(unsafe_code)]

mod environment;
mod program;

pub use environment::split;
pub use program::{LeftToKernel, ResolvedProgram, no_option, resolve};
