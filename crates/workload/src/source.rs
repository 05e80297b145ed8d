//! The contract between whoever asks for messages and whoever carries them.
//!
//! A source is a set of *actors* (a host that draws arrivals, a thread of a replayed program), each
//! a number of the source's own choosing. An actor sleeps until a time it chose; woken, it submits
//! messages and chooses the next time. An open-loop source never looks at completions; a
//! closed-loop one lets an actor sleep until a message it waits for is complete.
//!
//! Polling order: [`Source::start`] once; then [`Source::wake`] at each time asked for and
//! [`Source::completed`] at each completion, in order of time, until nothing is left to do.

use crate::message::{Message, NodeId};
use unrack_units::Time;

/// Where a source puts what it wants: implemented by the simulator (and by tests).
pub trait Outbox {
    /// Submits a message now.
    fn submit(&mut self, message: Message);
    /// Asks for [`Source::wake`] with this actor at `at`, which is not in the past.
    fn wake_at(&mut self, at: Time, actor: u32);
    /// Asks for [`Source::wake`] when this has been computed. Where loads take no time, that is `computing.time` from
    /// `now` on.
    fn compute(&mut self, now: Time, computing: Computing) {
        self.wake_at(now + computing.time, computing.actor);
    }
}

/// What a node is to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computing {
    pub actor: u32,
    pub node: NodeId,
    /// On a core that never waits for memory.
    pub time: Time,
    pub loads: Loads,
}

/// What a task loads while it computes, of data that are not in the processor's own caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loads {
    /// Bytes that messages brought, one after the other.
    pub came: u64,
    /// Bytes one after the other that are new otherwise.
    pub fresh: u64,
    /// Bytes one after the other, the same ones each time.
    pub again: u64,
    /// Lines here and there among the `among` bytes that the node has of such data.
    pub scattered: u32,
    pub among: u64,
}

impl Loads {
    pub fn is_empty(&self) -> bool {
        self.came == 0 && self.fresh == 0 && self.again == 0 && self.scattered == 0
    }
}

/// Something that asks for messages.
pub trait Source {
    /// Called once, at time zero.
    fn start<O: Outbox>(&mut self, out: &mut O);
    /// The time an actor asked for has come.
    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O);
    /// A message is complete.
    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O);
    /// How many messages it will submit in all, if it knows.
    fn total(&self) -> Option<u64>;
    /// Nothing more will be submitted, whatever happens. Actors may still be asleep.
    fn is_exhausted(&self) -> bool;
}
