//! Events that an observer of the core is told.

use super::time::Time;
use crate::window::Served;

/// Reason for which an instruction took its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waited {
    /// Operations and their inputs, or the first level.
    Core,
    /// Caches beyond the first level.
    Cache,
    /// Memory.
    Memory,
}

impl Waited {
    /// Returns the reason for a wait for a line.
    pub(super) fn for_line(served: Served) -> Waited {
        match served {
            Served::L1 => Waited::Core,
            Served::L2 | Served::L3 | Served::Peer => Waited::Cache,
            Served::Memory => Waited::Memory,
        }
    }
}

/// Instruction that retires.
pub(super) struct Retirement<T> {
    /// Time of its dispatch.
    pub(super) dispatch: T,
    /// Time from which on the store queue had room for it.
    pub(super) room: T,
    /// Retirement of the instruction before.
    pub(super) before: T,
    /// Retirement.
    pub(super) at: T,
    pub(super) waited: Waited,
    /// Cycles from dispatch to completion where nothing is waited for.
    pub(super) least: f32,
    /// Whether a mispredicted branch, or a system call, stands before it.
    pub(super) is_restart: bool,
}

/// Observer of a core.
pub(super) trait Watch<T: Time> {
    /// Hears that the lead of a window is over, or that a window without one begins.
    fn start(&mut self);

    /// Hears of an instruction that retires.
    fn retire(&mut self, retirement: &Retirement<T>);

    /// Hears of a line that memory was asked for at `begin` and that is there at `end`.
    fn read(&mut self, begin: T, end: T);

    /// Hears that times are counted from `base` from now on.
    fn rebase(&mut self, base: T);
}

impl<T: Time> Watch<T> for () {
    fn start(&mut self) {}
    fn retire(&mut self, _: &Retirement<T>) {}
    fn read(&mut self, _: T, _: T) {}
    fn rebase(&mut self, _: T) {}
}
