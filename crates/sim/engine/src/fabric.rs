//! The contract of a fabric.

use crate::events::{Core, Observer, Tied};
use crate::inside::HostCounts;
use crate::run::Outcome;
use unrack_units::{Bytes, Time};
use unrack_workload::{Computing, Message, MessageId};

impl Tied for MessageId {}

/// Largest message of a fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Largest {
    pub bytes: Bytes,
    /// What sets the limit, and what raises it, in words.
    pub why: String,
}

/// A fabric: it carries messages.
pub trait Fabric {
    /// Event that this fabric schedules for itself: small and plain.
    type Event: Tied + Send;

    /// Carries a message that was submitted now. Read it with [`Core::message`].
    fn submit<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, id: MessageId);

    /// Handles an event that this fabric scheduled and that is due.
    fn handle<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, event: Self::Event);

    /// Starts a computation of a node now, with the loads that it names; [`Core::wake_at`] reports the end.
    fn compute<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, computing: Computing) {
        core.wake_at(core.now() + computing.time, computing.actor);
    }

    /// Returns the completion time of `message` alone on this fabric: by arithmetic, or simulated where there is none. At
    /// least [`Network::ideal`](crate::network::Network::ideal).
    fn unloaded(&self, message: &Message) -> Time;

    /// Returns whether the time of a message alone depends on what the fabric draws for it, or on its number, such as
    /// one of several routes.
    fn draws_routes(&self) -> bool {
        false
    }

    /// Returns the completion time of a message alone, of which the outcome among others is known. With routes that are
    /// drawn, [`Fabric::unloaded`] is the time of one draw; that of the message's own is no longer than what it took.
    fn unloaded_beside(&self, message: &Message, outcome: &Outcome) -> Time {
        let unloaded = self.unloaded(message);
        match outcome.completion() {
            Some(took) if self.draws_routes() => unloaded.min(took),
            _ => unloaded,
        }
    }

    /// Returns the largest message, or request, that the fabric carries. `None`: any that a workload can have.
    fn largest(&self) -> Option<Largest> {
        None
    }

    /// Returns counts from inside hosts, if anything takes time there.
    fn hosts(&self) -> Option<HostCounts> {
        None
    }

    /// Returns the least time after which an event at one switch, or at its nodes, can affect another switch. Zero:
    /// there is no such time.
    fn lookahead(&self) -> Time {
        Time::ZERO
    }
}
