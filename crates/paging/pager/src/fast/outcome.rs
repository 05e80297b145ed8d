//! Outcome of handling a system call.

use super::raw::Args;
use crate::{attached, gate};
use alloc::format;

/// Result of handling a call.
pub(super) enum Outcome {
    /// The call was made, with this result.
    Made(isize),
    /// The memory of the call is held: it can proceed by itself, with these arguments.
    GoOn(Args),
}

/// Ends the process, since nothing else would be certain to be right.
pub(super) fn refuse(what: &str) -> ! {
    let control = attached::control().expect("attached before");
    gate::die(control, &format!("the program uses {what}, which fast mode cannot do: run it without --fast"))
}
