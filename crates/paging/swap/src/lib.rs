//! The kernel's own far memory: a program in a memory cgroup that swaps to a device of its own.
//!
//! What a program loses to swap is decided by code that is not ours: the kernel's page tables, lists, and fault handler.
//! So it can check what a line predicts.
//!
//! | module | does |
//! |---|---|
//! | [`kernel_swap`](KernelSwap) | device and group together; a run in them |
//! | `group` | the cgroup: its limit, which follows what is not anonymous memory |
//! | `device` | zram, or a file |
//! | `sample` | contents of a program's pages |
//! | `undo` | puts all back, also when this process is killed |
//! | [`touch`] | the program by which the cost of a fault is measured |
//!
//! Only root can do this.
#![forbid(unsafe_code)]

mod device;
mod error;
mod group;
mod kernel_swap;
mod sample;
pub mod touch;
mod undo;

pub use device::SwapDevice;
pub use error::SwapError;
pub use kernel_swap::{KernelSwap, SwapCounts, check_machine};
pub use undo::Undo;

use unrack_units::Bytes;

/// Returns the memory of this machine.
pub fn memory_of_machine() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        text.strip_prefix("MemTotal:").and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Bytes::new(kib.unwrap_or(1 << 20) << 10)
}
