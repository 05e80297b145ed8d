//! Interface between a source of messages and the carrier of these messages, such as a simulated network.
//!
//! A source is a set of *actors*, for example hosts that draw arrivals, or threads of a replayed program. The source
//! assigns a number to each actor. An actor sleeps until a time that it has chosen. When it wakes up, it submits
//! messages and chooses the next time. In an open-loop source, actors ignore completions of messages. In a closed-loop
//! source, an actor also sleeps until a message that it waits for is complete.
//!
//! The carrier calls [`Source::start`] once. After that, it calls [`Source::wake`] at each requested time and
//! [`Source::completed`] at each completion of a message, in order of time, until no such event is left.

use crate::message::{Message, NodeId};
use unrack_units::Time;

/// Interface through which a source submits messages and requests wakeups. The simulator and the tests implement it.
pub trait Outbox {
    /// Submits a message now.
    fn submit(&mut self, message: Message);
    /// Requests a call of [`Source::wake`] for this actor at time `at`, which must not be in the past.
    fn wake_at(&mut self, at: Time, actor: u32);
    /// Requests a call of [`Source::wake`] for `computing.actor` when this computation is complete. If memory loads
    /// take no time, the call comes `computing.time` after `now`.
    fn compute(&mut self, now: Time, computing: Computing) {
        self.wake_at(now + computing.time, computing.actor);
    }
    /// Requests that this node sends no further data (`true`), or that it sends again (`false`). A carrier without such pauses
    /// ignores the request.
    fn pause(&mut self, node: NodeId, is_paused: bool) {
        let _ = (node, is_paused);
    }
}

/// Computation of an actor on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computing {
    pub actor: u32,
    pub node: NodeId,
    /// Computing time of the task, on a core that never waits for memory.
    pub time: Time,
    pub loads: TaskLoads,
}

/// Data that a task loads while it computes, and that the caches of the processor do not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskLoads {
    /// Bytes that arrived in messages. They are loaded sequentially.
    pub came: u64,
    /// Other bytes that are new in each task. They are loaded sequentially.
    pub fresh: u64,
    /// Bytes of data that does not change between tasks. They are loaded sequentially.
    pub again: u64,
    /// Number of lines that are loaded at random addresses. The next field, `among`, is the size of the data on the
    /// node that contains these addresses, in bytes.
    pub scattered: u64,
    pub among: u64,
}

impl TaskLoads {
    /// Returns whether the task loads no data.
    pub fn is_empty(&self) -> bool {
        self.came == 0 && self.fresh == 0 && self.again == 0 && self.scattered == 0
    }
}

/// Source of messages.
pub trait Source {
    /// Starts the source. The carrier calls this function once, at time zero.
    fn start<O: Outbox>(&mut self, out: &mut O);
    /// Wakes an actor at the time that the actor requested.
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O);
    /// Handles the completion of a message.
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O);
    /// Returns the total number of messages that the source will submit, or `None` if the source does not know the
    /// number.
    fn total(&self) -> Option<u64>;
    /// Returns whether the source will submit no more messages, whatever event comes next. Actors may still be asleep.
    fn is_exhausted(&self) -> bool;
}
