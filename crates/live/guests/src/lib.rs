//! Racks of virtual machines on one machine: each host is a guest of QEMU with a kernel of its own, and all share one
//! memory device.
//!
//! ```text
//! scenario --GuestRack::read--> GuestRack --GuestSeat::claim, start--> the rack's process, parent of every QEMU
//!                                                                          | one socket per guest (`link`)
//! program --GuestSeat::exec--> folder's socket --> the rack's process --> virtio port --> agent --> runs in the guest
//! ```
//!
//! Nothing is fetched: the kernel and its modules are this machine's, and so is the guests' root, read-only below a file
//! system in memory. Guests have no network. Whatever files QEMU opens are in memory and have no name, and every QEMU is
//! killed with the rack's process, so that nothing is left behind, whichever process is killed.

mod accelerator;
pub mod agent;
mod cpio;
mod doorbell;
mod engine;
mod exec;
mod flow;
mod guest;
mod header;
mod initramfs;
mod keeper;
mod kernel;
mod link;
mod machine;
mod memory;
mod modules;
mod qemu;
mod request;
mod scenario;
mod seat;
mod signals;
mod trial;
mod wire;

pub use accelerator::Accelerator;
pub use exec::exec;
pub use initramfs::DEVICE;
pub use keeper::{BootStep, serve};
pub use machine::{check_machine, try_machine};
pub use request::{DeviceStatus, HostChange, HostState, HostStatus, RackStatus};
pub use scenario::{DeviceKind, GuestHost, GuestRack, SharedDevice};
pub use seat::GuestSeat;
pub use wire::GuestExit;
