//! Broadcasts: a source sends a broadcast, and nodes forward it along a tree. A node that drops a copy reports this to the source, which
//! then sends the broadcast again (§3.2).

use super::{ControlPacket, Node, NodeTimer, World};
use crate::r2c2::RateControl as Controlled;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Assignment, Broadcast, Event as Told};
use unrack_units::Time;

/// Delay before a source sends a broadcast again after a report of its loss. During this delay, a full queue of 36 KiB at 10 Gb/s drains by
/// a third, so that the repeated broadcast finds room.
const REPEAT_AFTER: Time = Time::from_us(10);

impl<F: Copy + PartialEq> Node<F> {
    /// Announces a change of a flow to all nodes or, if a controller computes the rates, only to the controller.
    pub fn announce<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        match world.setup().params.control {
            Controlled::Central => self.tell_controller(world, news),
            Controlled::Decentralized => self.announce_routings(world, news, &[]),
        }
    }

    /// Announces the routings that this node has chosen for flows, and applies them to the node's view and flows (§3.4).
    pub fn announce_routings<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        news: BroadcastContent,
        pairs: &[Assignment],
    ) {
        self.learn(world, news, pairs);
        self.send_out(world, news);
    }

    /// Sends a broadcast of this node along the tree that the broadcast names.
    fn send_out<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        let Some(carried) = world.carry(news) else { return };
        self.spread(world, news, &carried);
        world.put_down(carried);
    }

    /// Sends an announcement to the controller and to no other node.
    fn tell_controller<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        match world.setup().params.controller {
            controller if controller == self.me => self.hear_as_controller(world, news),
            controller => self.put_control(world, controller, ControlPacket::Told(news)),
        }
    }

    /// Handles an announcement that a source sent to this node alone, because this node is the controller.
    pub fn hear_as_controller<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        self.learn(world, news, &[]);
        self.start_ticking(world);
    }

    /// Handles a broadcast from another node, and forwards it. The broadcast is about one flow, or about new routings of several flows
    /// (`pairs`).
    pub fn hear<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        news: BroadcastContent,
        pairs: &[Assignment],
        carried: &W::Carried,
    ) {
        self.reports.heard(news);
        self.learn(world, news, pairs);
        self.spread(world, news, carried);
    }

    fn learn<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent, pairs: &[Assignment]) {
        if let BroadcastContent::Flow(told) = news {
            // A broadcast that was in flight when a failure was discovered may name a routing that is no longer possible.
            let routing = world.map().usable(told.routing);
            self.view.hear(world.now(), &Broadcast { routing, ..told });
        }
        self.reroute(world, pairs);
    }

    fn reroute<W: World<Flow = F>>(&mut self, world: &mut W, pairs: &[Assignment]) {
        for Assignment { src, flow, routing } in pairs.iter().copied() {
            let usable = world.map().usable(routing);
            self.view.reroute((src, flow), usable);
            if u32::from(src) != self.me {
                continue;
            }
            let own = self.own_of(world, flow);
            if let Some(own) = own.and_then(|own| world.flow(own)) {
                (own.routing, own.told.routing) = (routing, usable);
            }
        }
    }

    /// Forwards a broadcast along its tree. If the queue of a link has no room for a copy, reports the loss to the broadcast's source.
    fn spread<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent, carried: &W::Carried) {
        for link in world.map().onward(self.me, news.src(), news.tree()) {
            if !world.cross(link, news, carried) {
                self.report(world, news);
            }
        }
    }

    /// Reports to the source of a broadcast that this node had to drop a copy of the broadcast (§3.2).
    pub fn report<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        if news.src() == self.me {
            return self.repeat_later(world, news);
        }
        // An announcement to a controller passes no other node, so that this node would never see the resent copy that ends the repetition
        // of its report. Therefore it reports the loss of such an announcement only once.
        if world.setup().params.control == Controlled::Decentralized {
            let (now, timeout) = (world.now(), world.setup().params.timeout);
            if !self.reports.dropped(now, timeout, news) {
                return;
            }
            world.wake_at(now + timeout, NodeTimer::Report);
        }
        self.put_control(world, news.src(), ControlPacket::Lost(news));
    }

    /// Sends a report again if the broadcast that this node dropped has not arrived again within the report's timeout.
    pub(super) fn report_again<W: World<Flow = F>>(&mut self, world: &mut W) {
        let (now, timeout) = (world.now(), world.setup().params.timeout);
        while let Some((news, next)) = self.reports.poll(now, timeout) {
            world.wake_at(next, NodeTimer::Report);
            self.put_control(world, news.src(), ControlPacket::Lost(news));
        }
    }

    /// Schedules one of this node's broadcasts to be sent again, along another tree, unless it is already scheduled.
    pub fn repeat_later<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        if self.repeats.iter().any(|repeat| repeat.is_like(news)) {
            return;
        }
        self.repeats.push_back(news.along(world.setup().tree(u32::from(news.tree()) + 1)));
        world.wake_at(world.now() + REPEAT_AFTER, NodeTimer::Repeat);
    }

    /// Sends the next scheduled broadcast again, unless its content is outdated.
    pub(super) fn repeat<W: World<Flow = F>>(&mut self, world: &mut W) {
        let repeat = self.repeats.pop_front();
        let Some(news) = repeat.and_then(|news| self.still(world, news)) else { return };
        match world.setup().params.control {
            Controlled::Central => self.tell_controller(world, news),
            Controlled::Decentralized => self.send_out(world, news),
        }
    }

    /// Returns the broadcast with its current content, because the requirements of the flow may have changed in the meantime. Returns
    /// `None` if the broadcast is outdated.
    fn still<W: World<Flow = F>>(&self, world: &mut W, news: BroadcastContent) -> Option<BroadcastContent> {
        let BroadcastContent::Flow(told) = news else { return Some(news) };
        let own = self.own_of(world, told.flow).and_then(|own| world.flow(own));
        let open = own.filter(|own| !own.transfer.is_through()).map(|own| own.told);
        match open.or_else(|| world.told_besides(told.flow)) {
            Some(now) => {
                Some(BroadcastContent::Flow(Broadcast { event: told.event, tree: told.tree, ..now }))
            }
            None => (told.event == Told::End).then_some(news),
        }
    }
}
