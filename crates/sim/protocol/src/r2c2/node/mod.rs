//! A node as a state machine. Its inputs are flows to send, packets that arrive, timers that are due and links that
//! fail. Its outputs are packets for its links, timers to set, and events of its flows.
//!
//! A node's [`World`] provides everything that differs between a simulated rack and a live one: the clock, the queues,
//! packets as values or as bytes, random numbers, and the storage of flows. The world is a type parameter, so that
//! handling a packet needs neither an allocation nor a virtual call.
//!
//! | module | holds |
//! |---|---|
//! | [`setup`] | settings that are the same for all nodes of a rack |
//! | [`world`] | requests of a node to its surroundings |
//! | `flow` | a flow at its source |
//! | `sending` | its packets, acknowledgements and timeouts |
//! | `broadcasts` | announcements, and reports of lost ones |
//! | `rating` | rates, demands and rules |
//! | `discovery` | changes when links fail or come back |

mod broadcasts;
mod discovery;
mod flow;
mod rating;
mod sending;
pub mod setup;
pub mod world;

pub use flow::Flow;
pub use setup::{RackSetup, WorldLimits};
pub use world::{ControlPacket, Event, FlowPart, NodeTimer, World};

use super::Routing;
use super::news::{BroadcastContent, Reports};
use super::shared_rates::SharedRates;
use super::view::RackView;
use super::weights::FlowPaths;
use std::collections::VecDeque;
use unrack_units::Time;

/// State of a node. Its world keeps the flows, and `F` is the type of their handles.
pub struct Node<F> {
    me: u32,
    /// Flows of the rack that the node knows.
    pub view: RackView,
    /// Flows that the node sends.
    own: Vec<F>,
    /// Whether the node currently computes rates once per interval.
    ticks: bool,
    /// Broadcasts that the node is about to repeat, in this order.
    repeats: VecDeque<BroadcastContent>,
    reports: Reports,
    /// Start of the run. The times of rules are relative to it.
    began: Time,
}

impl<F: Copy + PartialEq> Node<F> {
    /// Creates node `me`, which knows no flows yet. It takes turns with other nodes at `rates`.
    pub fn new(me: u32, rates: SharedRates) -> Node<F> {
        Node {
            me,
            view: RackView::new(rates),
            own: Vec::new(),
            ticks: false,
            repeats: VecDeque::new(),
            reports: Reports::default(),
            began: Time::ZERO,
        }
    }

    /// Returns the flows that the node sends.
    pub fn own(&self) -> &[F] {
        &self.own
    }

    /// Handles a timer that is due. [`NodeTimer::Tick`] is excluded, because the world may have to act between
    /// [`Node::settle`] and [`Node::pace`].
    pub fn wake<W: World<Flow = F>>(&mut self, world: &mut W, timer: NodeTimer<F>) {
        match timer {
            NodeTimer::Tick => {
                if self.settle(world, false) {
                    self.pace(world);
                }
            }
            NodeTimer::Repeat => self.repeat(world),
            NodeTimer::Report => self.report_again(world),
            NodeTimer::Send { flow, turn } => self.send(world, flow, turn),
            NodeTimer::Alarm { flow, turn } => self.alarm(world, flow, turn),
        }
    }

    /// Returns the node's flow with this number.
    pub fn own_of<W: World<Flow = F>>(&self, world: &mut W, number: u16) -> Option<F> {
        let is_it = |flow: &F| world.flow(*flow).is_some_and(|place| place.told.flow == number);
        self.own.iter().copied().find(is_it)
    }

    /// Acknowledges parts of another node's flow: all parts below `next`, and those of the 64 parts from `next` on
    /// whose bit in the mask is set.
    pub fn acknowledge<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        flow: F,
        src: u32,
        (next, mask): (u32, u64),
    ) {
        self.put_control(world, src, ControlPacket::Ack { flow, next, mask });
    }

    /// Sends a packet that follows a route and is not part of a flow. Without a path the packet is lost. A node that
    /// waits for it runs into a timeout, or learns of the failure.
    fn put_control<W: World<Flow = F>>(&mut self, world: &mut W, dst: u32, control: ControlPacket<F>) {
        let Some(route) = world.draw(FlowPaths { src: self.me, dst, ..CONTROL }) else { return };
        let is_put = world.put_control(dst, route, control);
        if let (false, ControlPacket::Told(news)) = (is_put, control) {
            self.report(world, news);
        }
    }
}

/// Control packets may take any shortest path.
pub const CONTROL: FlowPaths = FlowPaths { routing: Routing::Spraying, src: 0, dst: 0, flow: 0 };
