//! Handling of the program's system calls before they are made.
//!
//! Fast mode first holds the memory of a call, which means that the pages stay present. Then most calls are made by the thread itself, on
//! the program's own stack and with the program's own signal mask: the handler sends the thread to [`go_on`], so that interruptions,
//! restarts and cancellation work as usual. The handler itself makes calls that change memory, threads, signals or the pager's descriptors,
//! on behalf of the program. Unknown calls are refused.

use super::context::{ThreadContext, go_on};
use super::hold::release;
use super::outcome::CallEffect;
use super::prepare::prepare;
use super::raw::Args;
use super::thread::Thread;
use super::{birth, descriptors, mappings, signals};

/// Handles the system call at which the context stands.
pub(super) fn handle(thread: &Thread, context: &mut ThreadContext) {
    release(thread, context.register(libc::REG_RSP));
    let (number, args) = (context.number(), context.args());
    match outcome(thread, context, number, args) {
        CallEffect::Made(result) => context.set_result(result),
        CallEffect::GoOn(args) => go_on(context, args),
    }
}

fn outcome(thread: &Thread, context: &mut ThreadContext, number: i64, args: Args) -> CallEffect {
    mappings::outcome(thread, number, args)
        .or_else(|| signals::outcome(thread, context, number, args))
        .or_else(|| birth::outcome(thread, context, number, args))
        .or_else(|| descriptors::outcome(number, args))
        .unwrap_or_else(|| {
            prepare(thread, number, args);
            CallEffect::GoOn(args)
        })
}
