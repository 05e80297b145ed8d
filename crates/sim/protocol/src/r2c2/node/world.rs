//! Interface through which a node uses its surroundings.

use super::{Flow, RackSetup};
use crate::r2c2::map::RackMap;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Broadcast, Route};
use crate::r2c2::weights::FlowPaths;
use unrack_units::Time;

/// Surroundings of one node, at one time.
pub trait World {
    /// Handle of a flow, at either of its ends.
    type Flow: Copy + PartialEq;
    /// A broadcast in transit, as this world represents it.
    type Carried;

    /// Returns the current time.
    fn now(&self) -> Time;
    /// Returns the description of the rack.
    fn setup(&self) -> &RackSetup;
    /// Returns the topology as it is currently known.
    fn map(&mut self) -> &mut RackMap;
    /// Returns the rate in Kb/s that a flow would get if it were alone, on the links that are known to be up.
    fn alone_kbps(&mut self, ways: FlowPaths) -> u32;
    /// Draws a route, or returns `None` if no path is known.
    fn draw(&mut self, ways: FlowPaths) -> Option<Route>;
    /// Returns a flow that a node sends, or `None` if it is no longer stored.
    fn flow(&mut self, flow: Self::Flow) -> Option<&mut Flow>;
    /// Returns a number for a timer that no other timer of a flow has; never 0.
    fn turn(&mut self) -> u32;
    /// Sets a timer of the node, which may be due at once.
    fn wake_at(&mut self, at: Time, timer: NodeTimer<Self::Flow>);
    /// Returns the earliest time at which `wire` more bytes fit into the queue of the port, which is now if they fit
    /// already.
    fn room_at(&self, port: u32, wire: u32) -> Time;
    /// Puts a part of a flow into the queue of the first link of its route.
    fn put_part(&mut self, part: &FlowPart<Self::Flow>);
    /// Puts a packet to node `dst` that is not part of a flow into the queue of the first link of its route. Returns
    /// whether the packet left, as far as is known.
    fn put_control(&mut self, dst: u32, route: Route, control: ControlPacket<Self::Flow>) -> bool;
    /// Returns a broadcast of this node in the form to be sent over links, or `None` if it is too old to be known.
    fn carry(&mut self, news: BroadcastContent) -> Option<Self::Carried>;
    /// Puts a copy of a broadcast into the queue of a link. Returns whether it left.
    fn cross(&mut self, link: u32, news: BroadcastContent, carried: &Self::Carried) -> bool;
    /// Releases a broadcast of this node after its copies have been sent.
    fn put_down(&mut self, carried: Self::Carried);
    /// Returns the announcement with this number, if the node keeps something announced under it that is not a flow.
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
    /// Repeats a broadcast of which a copy was lost.
    Repeat,
    /// Repeats reports of broadcasts that the node had to drop.
    Report,
    /// Sends the next packet of a flow.
    Send { flow: F, turn: u32 },
    /// Ends a flow's wait for an acknowledgement.
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

/// Content of a packet that follows a route and is not part of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlPacket<F> {
    /// Acknowledgement: all segments below `next` have arrived, and so have those of the 64 segments from `next` on
    /// whose bit in the mask is set.
    Ack { flow: F, next: u32, mask: u64 },
    /// Report to the source of a broadcast that a node had to drop it (§3.2).
    Lost(BroadcastContent),
    /// Announcement that is sent to the controller instead of to all nodes.
    Told(BroadcastContent),
}

/// Events of a flow at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The flow was added to the flows of its node.
    Opened,
    /// The flow's next packet waits for its bucket.
    Paced,
    /// The flow waits for an acknowledgement.
    Waits,
    /// The source gives up, because no acknowledgement came for too long.
    GivenUp,
    /// The flow was removed from its node, because everything is acknowledged or its source has given up.
    Closed,
}
