//! Contract between a source of messages and their carrier.
//!
//! A source is a set of *actors* (a host that draws arrivals, a thread of a replayed program), each a number of the
//! source's own choosing. An actor sleeps until a time it chose; woken, it submits messages and chooses the next time.
//! An open-loop source ignores completions; a closed-loop one lets an actor sleep until a message that it waits for is
//! complete.
//!
//! Order of calls: [`Source::start`] once; then [`Source::wake`] at each time asked for and [`Source::completed`] at
//! each completion, in order of time, until nothing is left to do.

use crate::message::{Message, NodeId};
use unrack_units::Time;

/// Receiver of a source's messages and requests: implemented by the simulator (and by tests).
pub trait Outbox {
    /// Submits a message now.
    fn submit(&mut self, message: Message);
    /// Asks for [`Source::wake`] with this actor at `at`, which is not in the past.
    fn wake_at(&mut self, at: Time, actor: u32);
    /// Asks for [`Source::wake`] when this has been computed. Where loads take no time, the wake comes `computing.time`
    /// after `now`.
    fn compute(&mut self, now: Time, computing: Computing) {
        self.wake_at(now + computing.time, computing.actor);
    }
}

/// Computation that a node is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computing {
    pub actor: u32,
    pub node: NodeId,
    /// Time on a core that never waits for memory.
    pub time: Time,
    pub loads: TaskLoads,
}

/// Loads of a task while it computes, of data that are not in the processor's own caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskLoads {
    /// Bytes brought by messages, loaded sequentially.
    pub came: u64,
    /// Other new bytes, loaded sequentially.
    pub fresh: u64,
    /// Bytes loaded sequentially, the same ones each time.
    pub again: u64,
    /// Number of lines loaded at random among the `among` bytes of such data that the node has.
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
    /// Starts the source; called once, at time zero.
    fn start<O: Outbox>(&mut self, out: &mut O);
    /// Wakes an actor at the time that it asked for.
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O);
    /// Notes that a message is complete.
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O);
    /// Returns the number of messages that it will submit in all, if it knows.
    fn total(&self) -> Option<u64>;
    /// Returns whether nothing more will be submitted, whatever happens. Actors may still be asleep.
    fn is_exhausted(&self) -> bool;
}
