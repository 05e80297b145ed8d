//! Events that an observer of the core model receives.

use super::time::LaneTime;
use crate::window::ServedBy;

/// Reason why an instruction took its time. If several reasons apply to an instruction, the last one in the order of
/// the variants is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitCause {
    /// The instruction waited for operations and their inputs, or for the first-level cache.
    Core,
    /// The instruction waited for a cache beyond the first-level cache.
    Cache,
    /// The instruction waited for memory.
    Memory,
}

impl WaitCause {
    /// Returns the reason that applies to a wait for a line from the level `served`.
    pub(super) fn for_line(served: ServedBy) -> WaitCause {
        match served {
            ServedBy::L1 => WaitCause::Core,
            ServedBy::L2 | ServedBy::L3 | ServedBy::Peer => WaitCause::Cache,
            ServedBy::Memory => WaitCause::Memory,
        }
    }
}

/// Retirement of an instruction.
pub(super) struct Retirement<T> {
    /// Time at which the instruction was dispatched.
    pub(super) dispatch: T,
    /// Time from which the store queue had room for the instruction's stores.
    pub(super) room: T,
    /// Time at which the previous instruction retired.
    pub(super) before: T,
    /// Time at which the instruction retires.
    pub(super) at: T,
    pub(super) waited: WaitCause,
    /// Cycles from the dispatch to the completion of the instruction if it waits for no input.
    pub(super) least: f32,
    /// Whether the previous instruction is a mispredicted branch or a system call.
    pub(super) is_restart: bool,
}

/// Observer of a core.
pub(super) trait CoreObserver<T: LaneTime> {
    /// Called when the lead of a window has ended, or when a window without a lead begins. The lead consists of the
    /// first instructions of a window, whose cycles are not counted.
    fn start(&mut self);

    /// Called when an instruction retires.
    fn retire(&mut self, retirement: &Retirement<T>);

    /// Called for a line that is requested from memory at `begin` and arrives at `end`.
    fn read(&mut self, begin: T, end: T);

    /// Called when the core makes all times relative to `base`, the new time base.
    fn rebase(&mut self, base: T);
}

impl<T: LaneTime> CoreObserver<T> for () {
    fn start(&mut self) {}
    fn retire(&mut self, _: &Retirement<T>) {}
    fn read(&mut self, _: T, _: T) {}
    fn rebase(&mut self, _: T) {}
}
