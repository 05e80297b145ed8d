//! Loads and stores of a program, seen from outside.
//!
//! | module | holds |
//! |---|---|
//! | [`calibrate`] | caches, memory and core of this machine, measured |
//! | [`Tools`] | QEMU and the plugin, found and checked |
//! | [`run`], [`prepare`] | instrumented run of a program |
//! | [`ProcessRecord`] | what a process of it left |
//!
//! The models are in `unrack-lines`, the recorder is in `unrack-lines-plugin` (docs/decisions/0018-lines.md).
#![deny(unsafe_code)]

pub mod calibrate;
mod error;
mod launch;
mod record;
mod stop;
mod tools;

pub use error::RunError;
pub use launch::{InstrumentedRun, Options, Prepared, prepare, run};
pub use record::ProcessRecord;
pub use tools::{PLUGIN_VARIABLE, QEMU_VARIABLE, Tools};
