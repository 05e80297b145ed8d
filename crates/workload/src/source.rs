//! The contract between whoever asks for messages and whoever carries them.
//!
//! A source is a set of *actors* (a host that draws arrivals, a thread of a replayed program), each
//! a number of the source's own choosing. An actor sleeps until a time it chose; woken, it submits
//! messages and chooses the next time. An open-loop source never looks at completions; a
//! closed-loop one lets an actor sleep until a message it waits for is complete.
//!
//! Polling order: [`Source::start`] once; then [`Source::wake`] at each time asked for and
//! [`Source::completed`] at each completion, in order of time, until nothing is left to do.

use crate::message::Message;
use unrack_units::Time;

/// Where a source puts what it wants: implemented by the simulator (and by tests).
pub trait Outbox {
    /// Submits a message now.
    fn submit(&mut self, message: Message);
    /// Asks for [`Source::wake`] with this actor at `at`, which is not in the past.
    fn wake_at(&mut self, at: Time, actor: u32);
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
