//! Interface between a source of messages and their carrier.
//!
//! A source is a set of *actors*, for example hosts that draw arrivals or threads of a replayed program. The source
//! chooses a number for each of them. An actor sleeps until a time that it has chosen. When it wakes up, it submits
//! messages and chooses the next time. An open-loop source ignores completions; in a closed-loop source, an actor also
//! sleeps until a message that it waits for is complete.
//!
//! The carrier calls [`Source::start`] once. It then calls [`Source::wake`] at each time that was requested and
//! [`Source::completed`] at each completion, in order of time, until nothing is left to do.

use crate::message::{Message, NodeId};
use unrack_units::Time;

/// Receiver of a source's messages and requests. The simulator implements it, and tests do.
pub trait Outbox {
    /// Submits a message now.
    fn submit(&mut self, message: Message);
    /// Requests a call of [`Source::wake`] with this actor at time `at`, which is not in the past.
    fn wake_at(&mut self, at: Time, actor: u32);
    /// Requests a call of [`Source::wake`] when this computation is done. If loads take no time, the call comes
    /// `computing.time` after `now`.
    fn compute(&mut self, now: Time, computing: Computing) {
        self.wake_at(now + computing.time, computing.actor);
    }
}

/// Computation that a node should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computing {
    pub actor: u32,
    pub node: NodeId,
    /// Computing time on a core that never waits for memory.
    pub time: Time,
    pub loads: TaskLoads,
}

/// Data that a task loads while it computes and that is not in the caches of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskLoads {
    /// Bytes that arrived in messages, loaded sequentially.
    pub came: u64,
    /// Other new bytes, loaded sequentially.
    pub fresh: u64,
    /// Bytes that are the same each time, loaded sequentially.
    pub again: u64,
    /// Number of lines loaded at random addresses among the `among` bytes of such data on the node.
    pub scattered: u64,
    pub among: u64,
}

impl TaskLoads {
    /// Returns whether there are no loads.
    pub fn is_empty(&self) -> bool {
        self.came == 0 && self.fresh == 0 && self.again == 0 && self.scattered == 0
    }
}

/// Source of messages.
pub trait Source {
    /// Starts the source. It is called once, at time zero.
    fn start<O: Outbox>(&mut self, out: &mut O);
    /// Wakes an actor at the time that it asked for.
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O);
    /// Handles the completion of a message.
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O);
    /// Returns the total number of messages that the source will submit, if it knows the number.
    fn total(&self) -> Option<u64>;
    /// Returns whether the source will submit no more messages, whatever happens. Actors may still be asleep.
    fn is_exhausted(&self) -> bool;
}
