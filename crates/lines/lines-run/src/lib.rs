//! Instrumented runs, in which QEMU executes a program and a plugin records it, and calibration of the machine.
//!
//! | item | contents |
//! |---|---|
//! | [`calibrate`] | measurements of this machine's caches, memory and core |
//! | [`Tools`] | locations of QEMU and the plugin, which are checked |
//! | [`run`], [`prepare`] | instrumented run of a program |
//! | [`ProcessRecord`] | record that each process of the program leaves |
//!
//! The models of caches and core are in `unrack-lines`, and the recorder is in `unrack-lines-plugin`
//! (docs/decisions/0018-lines.md).
#![deny(unsafe_code)]

pub mod calibrate;
mod error;
mod launch;
mod record;
mod stop;
mod tools;

pub use error::RunError;
pub use launch::{InstrumentedRun, Options, PreparedCommand, prepare, run};
pub use record::ProcessRecord;
pub use tools::{PLUGIN_VARIABLE, QEMU_VARIABLE, Tools};
