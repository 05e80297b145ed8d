//! Racks of virtual machines on one machine. Each host is a guest of QEMU with a separate kernel, and all hosts share one memory device.
//!
//! ```text
//! scenario --GuestRack::read--> GuestRack --GuestSeat::claim, start--> the rack's process, parent of every QEMU
//!                                                                          | one socket per guest (`link`)
//! program --GuestSeat::exec--> folder's socket --> the rack's process --> virtio port --> agent --> runs in the guest
//! ```
//!
//! No files are downloaded: the kernel and its modules are those of this machine. The guests' root is this machine's file system too,
//! read-only and below a file system in memory. Guests have no network. The files that the rack makes for QEMU are in memory and have no
//! names, and every QEMU is killed together with the rack's process. Therefore nothing remains, whichever process is killed.

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
mod rack_state;
mod request;
mod scenario;
mod signals;
mod trial;
mod wire;

pub use accelerator::Accelerator;
pub use exec::exec;
pub use initramfs::DEVICE;
pub use keeper::{BootStep, serve};
pub use machine::{check_machine, try_machine};
pub use rack_state::GuestRackState;
pub use request::{DeviceStatus, HostChange, HostState, HostStatus, RackStatus};
pub use scenario::{DeviceKind, GuestHost, GuestRack, SharedDevice};
pub use wire::GuestExit;
