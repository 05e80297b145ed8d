//! The kernel's own remote memory: a program in a memory cgroup that swaps to a separate device.
//!
//! The kernel's page tables, lists and fault handler determine how much time a program loses to swap. Because this code is independent of
//! Unrack, it can check Unrack's predictions.
//!
//! | module | does |
//! |---|---|
//! | [`kernel_swap`](KernelSwap) | device and group together; a run in them |
//! | `group` | the cgroup: its limit, which follows the memory that is not anonymous |
//! | `device` | zram, or a file |
//! | `sample` | contents of a program's pages |
//! | `undo` | restores the machine, even if this process is killed |
//! | [`touch`] | the program that measures the cost of a fault |
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

/// Returns the amount of memory of this machine.
pub fn memory_of_machine() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib =
        text.strip_prefix("MemTotal:").and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Bytes::new(kib.unwrap_or(1 << 20) << 10)
}
