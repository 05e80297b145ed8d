//! Doorbells: interrupts by which the manager of one host wakes the manager of another.
//!
//! Without doorbells, a manager finds messages of other hosts only when it polls, at most two milliseconds later, and
//! processes poll for their peers on other hosts (HydraRPC §5.3). With doorbells, managers and processes are woken.

mod ivshmem;
mod vfio;

pub use ivshmem::{CannotRing, Ivshmem};

use rustix::fd::BorrowedFd;
use std::fmt::Debug;

/// Doorbell of a host. A ring carries no data, so a manager that is woken must look for new messages.
pub trait Doorbell: Debug + Send + Sync {
    /// Returns the number by which other hosts ring this host.
    fn number(&self) -> u32;

    /// Rings the host with this number. The number comes from another host's record, which may be wrong, so it need not
    /// belong to any host.
    fn ring(&self, number: u32);

    /// Returns the descriptor that becomes readable when another host rings.
    fn wakeup(&self) -> BorrowedFd<'_>;

    /// Makes the descriptor unreadable until the next ring.
    fn silence(&self);
}
