//! A node, as a state machine: it is told of a flow to send, a packet that has come, a timer that is due or a link that
//! failed, and answers with packets to put on links, timers to set, and what has become of its flows.
//!
//! Its [`World`] has what differs between a simulated rack and a live one: the clock, queues, packets as values or as
//! bytes, random numbers, and where flows are kept. A world is a type parameter, so that nothing is allocated or looked
//! up in a table of functions for a packet.
//!
//! | module | holds |
//! |---|---|
//! | [`setup`] | what is the same for all nodes of a rack |
//! | [`world`] | what a node asks of its surroundings |
//! | `flow` | a flow at its source |
//! | `sending` | its packets, acknowledgements and timeouts |
//! | `broadcasts` | announcements, and reports of lost ones |
//! | `rating` | rates, demands and rules |
//! | `discovery` | what changes when links fail or come back |

mod broadcasts;
mod discovery;
mod flow;
mod rating;
mod sending;
pub mod setup;
pub mod world;

pub use flow::Flow;
pub use setup::{RackSetup, WorldLimits};
pub use world::{ControlPacket, Event, NodeTimer, Part, World};

use super::Routing;
use super::news::{News, Reports};
use super::shared_rates::SharedRates;
use super::view::RackView;
use super::weights::Ways;
use std::collections::VecDeque;
use unrack_units::Time;

/// State of a node whose flows are kept by its world, under handles of type `F`.
pub struct Node<F> {
    me: u32,
    /// Flows of the rack that the node knows of.
    pub view: RackView,
    /// Flows that it sends.
    own: Vec<F>,
    /// True while the node computes rates once an interval.
    ticks: bool,
    /// Broadcasts that it is about to repeat, in this order.
    repeats: VecDeque<News>,
    reports: Reports,
    /// Time since which rules hold: theirs are relative to it.
    began: Time,
}

impl<F: Copy + PartialEq> Node<F> {
    /// Creates node `me`, which knows of no flows, and takes turns with others at `rates`.
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

    /// Returns the flows that it sends.
    pub fn own(&self) -> &[F] {
        &self.own
    }

    /// Handles a timer that is due, but for [`NodeTimer::Tick`]: its world may have to do something between
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

    /// Returns its flow of this number.
    pub fn own_of<W: World<Flow = F>>(&self, world: &mut W, number: u16) -> Option<F> {
        let is_it = |flow: &F| world.flow(*flow).is_some_and(|place| place.told.flow == number);
        self.own.iter().copied().find(is_it)
    }

    /// Acknowledges parts of another node's flow: all below `next`, and of the 64 from there on those in the mask.
    pub fn acknowledge<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        flow: F,
        src: u32,
        (next, mask): (u32, u64),
    ) {
        self.put_control(world, src, ControlPacket::Ack { flow, next, mask });
    }

    /// Sends a packet that follows a route and is no part of a flow. Without a path it is lost: who waits for it times
    /// out, or is told of the failure.
    fn put_control<W: World<Flow = F>>(&mut self, world: &mut W, dst: u32, control: ControlPacket<F>) {
        let Some(route) = world.draw(Ways { src: self.me, dst, ..CONTROL }) else { return };
        let is_put = world.put_control(dst, route, control);
        if let (false, ControlPacket::Told(news)) = (is_put, control) {
            self.report(world, news);
        }
    }
}

/// Control packets take any shortest path.
pub const CONTROL: Ways = Ways { routing: Routing::Spraying, src: 0, dst: 0, flow: 0 };
