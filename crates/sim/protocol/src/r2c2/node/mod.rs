//! An R2C2 node as a state machine. Its inputs are flows to send, packets that arrive, timers that expire and links that fail. Its outputs
//! are packets for its links, timers to set, and events of its flows.
//!
//! The node uses its surroundings through the trait [`World`], which a simulated rack and a live rack implement differently. The world
//! provides the clock, the queues, the representation of packets as values or as bytes, random numbers, and the storage of flows. The world
//! is a type parameter, so that the handling of a packet needs neither an allocation nor a virtual call.
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

/// State of an R2C2 node. The node's [`World`] stores the flows; the node refers to them by handles of type `F`.
pub struct Node<F> {
    me: u32,
    /// Flows of the rack that the node knows.
    pub view: RackView,
    /// Flows that the node sends.
    own: Vec<F>,
    /// Whether the node's periodic timer for the computation of rates is running.
    ticks: bool,
    /// Broadcasts that the node will send again, because a copy was lost, in this order.
    repeats: VecDeque<BroadcastContent>,
    reports: Reports,
    /// Start of the run. The times in the operator's rules are relative to it.
    began: Time,
}

impl<F: Copy + PartialEq> Node<F> {
    /// Creates node `me`, which knows no flows yet. It shares the table `rates` with the other nodes of its process, which use the table in
    /// turn.
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

    /// Handles a timer that has expired, except [`NodeTimer::Tick`]. For a tick, the caller calls [`Node::settle`] and [`Node::pace`]
    /// itself, because the world may have to act between these two calls.
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

    /// Returns the handle of the flow with this number that this node sends.
    pub fn own_of<W: World<Flow = F>>(&self, world: &mut W, number: u16) -> Option<F> {
        let is_it = |flow: &F| world.flow(*flow).is_some_and(|place| place.told.flow == number);
        self.own.iter().copied().find(is_it)
    }

    /// Sends an acknowledgement for a flow that another node sends to this node. It acknowledges all parts with numbers below `next` and,
    /// of the 64 parts from `next` on, those whose bit is set in `mask`.
    pub fn acknowledge<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        flow: F,
        src: u32,
        (next, mask): (u32, u64),
    ) {
        self.put_control(world, src, ControlPacket::Ack { flow, next, mask });
    }

    /// Sends a control packet, such as an acknowledgement, to node `dst` along a route. If no path to `dst` exists, the packet is lost. A
    /// node that waits for the packet then runs into a timeout, or learns of the failed links.
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
