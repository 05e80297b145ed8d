//! Instrumented runs of a program under QEMU, and calibration of the machine.
//!
//! | item | contents |
//! |---|---|
//! | [`calibrate`] | measurements of this machine's caches, memory and core |
//! | [`Tools`] | QEMU and the plugin, located and checked |
//! | [`run`], [`prepare`] | instrumented run of a program |
//! | [`ProcessRecord`] | record that each of its processes leaves |
//!
//! The models are in `unrack-lines`, and the recorder is in `unrack-lines-plugin` (docs/decisions/0018-lines.md).
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
