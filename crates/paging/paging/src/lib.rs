//! Runs unmodified programs with remote memory, and controls them from outside: launch, measurement, calibration and fit.
//!
//! | to | use |
//! |---|---|
//! | find the file of a command, and check that the command and the machine are suitable | [`CheckedProgram::prepare`] |
//! | run the program natively, to get its time and footprint | [`native`], [`footprint`] |
//! | measure the cost of the pager itself | [`calibrate()`] |
//! | describe the delay of a fetch | [`FetchDelay`] |
//! | run the program with remote memory | [`measure`] |
//! | make memory of a running process remote | [`borrow()`] |
//! | detect whether other work slowed a run down | [`MachineCounters::now`], [`MachineLoad::disturbance`] |
//! | fit a line from delays to run times | [`fit`] |
//! | decide which conclusions the fit supports | [`quality`] |
//!
//! The pagers themselves are in `unrack-pager`, which `unrack-preload` loads into the program. A pager and this crate share one file
//! ([`control_file`]) and, if the run captures its transfers, one spool file per process.
//!
//! Only one run is possible at a time, because a run takes over the signals of this process and adopts its orphaned descendants. A program
//! that makes runs first calls [`stand_guard`], so that a run ends even if the process that started it is killed, and [`sweep`].

pub mod calibrate;
pub mod control_file;
pub mod fit;
pub mod quality;

mod borrow;
mod bpf;
mod bypass;
mod cache;
mod capture;
mod delay;
mod disturbance;
mod elf;
mod encrypted;
mod ending;
mod error;
mod expected;
mod family;
mod folder;
mod footprint;
mod guard;
mod headroom;
#[cfg(target_arch = "x86_64")]
mod inject;
#[cfg(not(target_arch = "x86_64"))]
#[path = "inject/absent.rs"]
mod inject;
mod input;
mod job;
mod launch;
mod local;
mod machine;
mod measure;
mod memory_node;
mod memory_nodes;
mod placeholder;
mod proc;
mod program;
mod program_end;
mod readings;
mod say;
mod signals;
mod silence;
mod timed;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod trace;
mod weighing;

pub use borrow::{BorrowReport, BorrowSetup, LEFT_OUT, RunningProgram, borrow};
pub use calibrate::{Calibration, FaultMode, calibrate, calibrate_undisturbed};
pub use delay::FetchDelay;
pub use disturbance::{MachineCounters, MachineLoad};
pub use error::PagingError;
pub use expected::{NO_NATIVE, OneRun, expected};
pub use folder::sweep;
pub use footprint::{Footprint, Weighing};
pub use guard::{StopSignals, stand_aside, stand_guard};
pub use input::Input;
pub use job::{CheckedProgram, OutputTarget, SMALLEST_LOCAL, local_bytes};
pub use local::{LocalMemory, NOT_AWAY};
pub use machine::{
    COPY_VARIABLE, PRELOAD_VARIABLE, check_borrowing, check_fast, check_machine, lost_on_this_kernel,
};
pub use measure::{CaptureTo, RunReport, RunSetup, Tally, measure};
pub use memory_node::MemoryNode;
pub use memory_nodes::{MemoryNodes, NodeTraffic, RemoteNodes};
pub use placeholder::{Placeholder, become_placeholder};
pub use program_end::ProgramEnd;
pub use readings::PROC_VARIABLE;
pub use say::say;
pub use timed::{TimedRun, timed};
pub use weighing::{NativeRun, footprint, native};
