//! The contract that every fabric implements.

use crate::events::{Core, Observer, Tied};
use crate::inside::HostCounts;
use crate::run::Outcome;
use unrack_units::{Bytes, Time};
use unrack_workload::{Computing, Message, MessageId, NodeId};

impl Tied for MessageId {}

/// Largest message that a fabric can carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Largest {
    pub bytes: Bytes,
    /// Explanation for the user: why the limit exists, and how to raise it.
    pub why: String,
}

/// A fabric: a simulated network that carries messages.
pub trait Fabric {
    /// Event that this fabric schedules for itself. It is copied often; therefore it should be small and plain.
    type Event: Tied + Send;

    /// Starts to carry a message that is submitted now. [`Core::message`] returns the message of this id.
    fn submit<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, id: MessageId);

    /// Handles an event that this fabric scheduled and that is due.
    fn handle<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, event: Self::Event);

    /// Starts a computation on a node now, with the memory loads that the computation names. [`Core::wake_at`]
    /// schedules the report of its end.
    fn compute<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, computing: Computing) {
        core.wake_at(core.now() + computing.time, computing.actor);
    }

    /// Stops a node from sending further data, or lets it send again. Packets on the way are not stopped. Default: nothing is
    /// paused.
    fn pause<O: Observer>(&mut self, core: &mut Core<Self::Event, O>, node: NodeId, is_paused: bool) {
        let _ = (core, node, is_paused);
    }

    /// Returns the completion time of `message` alone on this fabric: computed by a formula, or simulated where no
    /// formula exists. It is at least [`Network::ideal`](crate::network::Network::ideal).
    fn unloaded(&self, message: &Message) -> Time;

    /// Returns whether the time of a message alone depends on a random draw of the fabric or on the number of the
    /// message, for example because the fabric draws one of several routes.
    fn draws_routes(&self) -> bool {
        false
    }

    /// Returns the completion time of a message alone, given its outcome among other messages. If routes are drawn,
    /// [`Fabric::unloaded`] is the time on one drawn route, and the message may have had a faster one. Therefore the
    /// result is then at most the time that the message took.
    fn unloaded_beside(&self, message: &Message, outcome: &Outcome) -> Time {
        let unloaded = self.unloaded(message);
        match outcome.completion() {
            Some(took) if self.draws_routes() => unloaded.min(took),
            _ => unloaded,
        }
    }

    /// Returns the largest message, or request, that the fabric carries; `None` if it carries every message of a
    /// workload.
    fn largest(&self) -> Option<Largest> {
        None
    }

    /// Returns counts from inside hosts; `None` if hosts take no time.
    fn hosts(&self) -> Option<HostCounts> {
        None
    }

    /// Returns the minimum time after which an event at one switch, or at its nodes, can affect another switch. Zero
    /// means that the fabric guarantees no such time.
    fn lookahead(&self) -> Time {
        Time::ZERO
    }
}
