//! Interface through which a node uses its surroundings.

use super::{Flow, RackSetup};
use crate::r2c2::map::RackMap;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Route};
use crate::r2c2::weights::FlowPaths;
use unrack_units::Time;

/// Surroundings of one node at the time of one event: everything outside the protocol that the node uses.
pub trait World {
    /// Handle of a flow, at the flow's source or destination.
    type Flow: Copy + PartialEq;
    /// A broadcast in flight, as this world represents it.
    type Carried;

    /// Returns the current time.
    fn now(&self) -> Time;
    /// Returns the description of the rack.
    fn setup(&self) -> &RackSetup;
    /// Returns the topology as it is currently known.
    fn map(&mut self) -> &mut RackMap;
    /// Returns the rate in Kb/s that a flow would get, on the links that are known to be up, if it were the only flow.
    fn alone_kbps(&mut self, ways: FlowPaths) -> u32;
    /// Randomly chooses a route among the paths of a flow, or returns `None` if no path is known.
    fn draw(&mut self, ways: FlowPaths) -> Option<Route>;
    /// Returns the state of a flow that the node sends, or `None` if the world no longer stores the flow.
    fn flow(&mut self, flow: Self::Flow) -> Option<&mut Flow>;
    /// Returns a number for a new timer. No other timer of the flow has this number, and the number is never 0.
    fn turn(&mut self) -> u32;
    /// Sets a timer of the node to expire at time `at`, which may be now.
    fn wake_at(&mut self, at: Time, timer: NodeTimer<Self::Flow>);
    /// Returns the earliest time at which the queue of the port has room for `wire` more bytes. This is the current time if it has room
    /// already.
    fn room_at(&self, port: u32, wire: u32) -> Time;
    /// Puts a packet with a part of a flow into the queue of the first link of its route.
    fn put_part(&mut self, part: &FlowPart<Self::Flow>);
    /// Puts a control packet for node `dst` into the queue of the first link of its route. Returns `false` if the world knows that the
    /// packet was dropped.
    fn put_control(&mut self, dst: u32, route: Route, control: ControlPacket<Self::Flow>) -> bool;
    /// Converts a broadcast of this node to the form in which it crosses links. Returns `None` if the broadcast is so old that the world no
    /// longer stores its content.
    fn carry(&mut self, news: BroadcastContent) -> Option<Self::Carried>;
    /// Puts a copy of a broadcast into the queue of a link. Returns whether the queue had room for it.
    fn cross(&mut self, link: u32, news: BroadcastContent, carried: &Self::Carried) -> bool;
    /// Releases the memory of a broadcast of this node after its copies have been queued.
    fn put_down(&mut self, carried: Self::Carried);
    /// Returns the node's announcement with this flow number if it is about something other than a flow in the node's list, such as a
    /// stream of a live rack.
    fn told_besides(&self, _number: u16) -> Option<Broadcast> {
        None
    }
    /// Reports an event of one of the node's flows to the world.
    fn happened(&mut self, flow: Self::Flow, event: Event);
}

/// Timers that a node sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTimer<F> {
    /// Computes rates.
    Tick,
    /// Sends a broadcast of this node again, because a copy of it was lost.
    Repeat,
    /// Sends the unanswered reports of broadcasts that this node had to drop again.
    Report,
    /// Sends the next packet of a flow.
    Send { flow: F, turn: u32 },
    /// Ends the wait of a flow for an acknowledgement.
    Alarm { flow: F, turn: u32 },
}

/// Part of a flow to be sent.
#[derive(Debug, Clone, Copy)]
pub struct FlowPart<F> {
    pub flow: F,
    pub told: Broadcast,
    pub segment: u32,
    /// Whether the part was sent before.
    pub is_again: bool,
    pub is_last: bool,
    pub route: Route,
    pub offset: u64,
    pub payload: u32,
    pub wire: u32,
}

/// Content of a control packet, which follows a route but carries no payload of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlPacket<F> {
    /// Acknowledgement: all segments with numbers below `next` have arrived. Of the 64 segments from `next` on, those have arrived whose
    /// bit is set in `mask`.
    Ack { flow: F, next: u32, mask: u64 },
    /// Report to the source of a broadcast: a node had to drop a copy of this broadcast (§3.2).
    Lost(BroadcastContent),
    /// Announcement that a source sends to the controller alone instead of broadcasting it.
    Told(BroadcastContent),
}

/// Events of a flow at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The flow was added to the flows of its node.
    Opened,
    /// The flow's next packet waits until the token bucket allows it.
    Paced,
    /// The flow waits for an acknowledgement.
    Waits,
    /// The source has given up, because no acknowledgement arrived for too long.
    GivenUp,
    /// The node has removed the flow from its list, because all segments are acknowledged or the source has given up.
    Closed,
}
