//! Doorbells: interrupts by which the manager of one host wakes that of another.
//!
//! Without one, a manager finds the messages of others when it looks, after two milliseconds at most, and processes that
//! wait for peers on other hosts look by themselves (HydraRPC §5.3). With one, both are woken.

mod ivshmem;
mod vfio;

pub use ivshmem::{CannotRing, Ivshmem};

use rustix::fd::BorrowedFd;
use std::fmt::Debug;

/// Doorbell of a host. It carries nothing: whoever is rung for looks what there is.
pub trait Doorbell: Debug + Send + Sync {
    /// Returns the number by which other hosts ring this one.
    fn number(&self) -> u32;

    /// Rings the host with this number, which another host's record states: there may be none.
    fn ring(&self, number: u32);

    /// Returns the descriptor that can be read once this host was rung for.
    fn bell(&self) -> BorrowedFd<'_>;

    /// Makes the descriptor unreadable until the next ring.
    fn silence(&self);
}
