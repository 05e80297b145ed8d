//! Outcome of the handling of a system call.

use super::raw::Args;
use crate::{attached, gate};
use alloc::format;

/// Result of the handling of a system call.
pub(super) enum CallEffect {
    /// The handler made the call, with this result.
    Made(isize),
    /// The memory of the call is held, so that the thread can make the call itself, with these arguments.
    GoOn(Args),
}

/// Ends the process, because no other reaction would be certain to be correct.
pub(super) fn refuse(what: &str) -> ! {
    let control = attached::control().expect("attached before");
    gate::die(control, &format!("the program uses {what}, which fast mode cannot do: run it without --fast"))
}
