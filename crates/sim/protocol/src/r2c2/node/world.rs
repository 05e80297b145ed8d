//! Requests of a node to the world around it.

use super::{Flow, RackSetup};
use crate::r2c2::map::Map;
use crate::r2c2::news::News;
use crate::r2c2::packet::{Broadcast, Route};
use crate::r2c2::weights::Ways;
use unrack_units::Time;

/// Surroundings of one node, at one time.
pub trait World {
    /// Handle of a flow, at either of its ends.
    type Flow: Copy + PartialEq;
    /// Broadcast on its way, as this world has it.
    type Carried;

    /// Returns the time.
    fn now(&self) -> Time;
    /// Returns the description of the rack.
    fn setup(&self) -> &RackSetup;
    /// Returns the rack as it is known.
    fn map(&mut self) -> &mut Map;
    /// Returns the rate in Kb/s that a flow would get alone, on the links that are known to be up.
    fn alone_kbps(&mut self, ways: Ways) -> u32;
    /// Draws a route; `None` if no path is known.
    fn draw(&mut self, ways: Ways) -> Option<Route>;
    /// Returns a flow that a node sends, as long as it is kept.
    fn flow(&mut self, flow: Self::Flow) -> Option<&mut Flow>;
    /// Returns a name for a timer that no other of a flow has; not 0.
    fn turn(&mut self) -> u32;
    /// Sets a timer of the node, which may be due at once.
    fn wake_at(&mut self, at: Time, timer: NodeTimer<Self::Flow>);
    /// Returns the earliest time at which `wire` more bytes fit into the queue of the port; now if they fit already.
    fn room_at(&self, port: u32, wire: u32) -> Time;
    /// Puts a part of a flow into the queue of the first link of its route.
    fn put_part(&mut self, part: &Part<Self::Flow>);
    /// Puts a packet to node `dst` that is no part of a flow into the queue of the first link of its route. Returns
    /// whether it left, as far as is known.
    fn put_control(&mut self, dst: u32, route: Route, control: ControlPacket<Self::Flow>) -> bool;
    /// Returns a broadcast of this node, to be put on links; `None` if it is too old to be known.
    fn carry(&mut self, news: News) -> Option<Self::Carried>;
    /// Puts a copy of a broadcast into the queue of a link. Returns whether it left.
    fn cross(&mut self, link: u32, news: News, carried: &Self::Carried) -> bool;
    /// Takes back a broadcast of this node, whose copies are on their ways.
    fn put_down(&mut self, carried: Self::Carried);
    /// Returns the announcement under this number of something else than a flow that the node keeps announced.
    fn told_besides(&self, _number: u16) -> Option<Broadcast> {
        None
    }
    /// Takes note of an event of a flow of the node.
    fn happened(&mut self, flow: Self::Flow, event: Event);
}

/// Timers of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTimer<F> {
    /// Computes rates.
    Tick,
    /// Repeats a broadcast, a copy of which was lost.
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
pub struct Part<F> {
    pub flow: F,
    pub told: Broadcast,
    pub segment: u32,
    /// True if the part was sent before.
    pub is_again: bool,
    pub is_last: bool,
    pub route: Route,
    pub offset: u64,
    pub payload: u32,
    pub wire: u32,
}

/// Content of a packet that follows a route and is no part of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlPacket<F> {
    /// Acknowledgement: all segments below `next` have arrived, and those of the 64 from `next` on whose bit is set.
    Ack { flow: F, next: u32, mask: u64 },
    /// Report to the source of a broadcast that a node had to drop it (§3.2).
    Lost(News),
    /// Announcement to the controller, instead of all nodes.
    Told(News),
}

/// Events of a flow at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The flow became one of its node's.
    Opened,
    /// The flow's next packet waits for its bucket.
    Paced,
    /// The flow waits for an acknowledgement.
    Waits,
    /// The source gives up: no acknowledgement came for too long.
    GivenUp,
    /// The flow left its node: all is acknowledged, or its source has given up.
    Closed,
}
