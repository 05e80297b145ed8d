//! Broadcasts: a source announces them, nodes forward them along a tree, and lost copies are reported and repeated
//! (§3.2).

use super::{ControlPacket, Node, NodeTimer, World};
use crate::r2c2::RateControl as Controlled;
use crate::r2c2::news::BroadcastContent;
use crate::r2c2::packet::{Assignment, Broadcast, Event as Told};
use unrack_units::Time;

/// Delay before a broadcast is repeated. In this time, a full queue of 36 KiB at 10 Gb/s loses a third of its content.
const REPEAT_AFTER: Time = Time::from_us(10);

impl<F: Copy + PartialEq> Node<F> {
    /// Announces a flow to all nodes, or to the controller if there is one.
    pub fn announce<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        match world.setup().params.control {
            Controlled::Central => self.tell_controller(world, news),
            Controlled::Decentralized => self.announce_routings(world, news, &[]),
        }
    }

    /// Announces routings that the node has chosen, and applies them (§3.4).
    pub fn announce_routings<W: World<Flow = F>>(
        &mut self,
        world: &mut W,
        news: BroadcastContent,
        pairs: &[Assignment],
    ) {
        self.learn(world, news, pairs);
        self.send_out(world, news);
    }

    /// Sends a broadcast of the node along its tree.
    fn send_out<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        let Some(carried) = world.carry(news) else { return };
        self.spread(world, news, &carried);
        world.put_down(carried);
    }

    /// Sends news only to the controller.
    fn tell_controller<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        match world.setup().params.controller {
            controller if controller == self.me => self.hear_as_controller(world, news),
            controller => self.put_control(world, controller, ControlPacket::Told(news)),
        }
    }

    /// Handles news that is sent only to the controller.
    pub fn hear_as_controller<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        self.learn(world, news, &[]);
        self.start_ticking(world);
    }

    /// Handles a broadcast of another node, about a flow or about the routings of some flows (`pairs`), and forwards
    /// it.
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
            // News that was on its way when a failure was discovered may name a routing that is no longer possible.
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

    /// Forwards a broadcast along its tree, and reports the copies that are dropped.
    fn spread<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent, carried: &W::Carried) {
        for link in world.map().onward(self.me, news.src(), news.tree()) {
            if !world.cross(link, news, carried) {
                self.report(world, news);
            }
        }
    }

    /// Reports to the source of a broadcast that the node had to drop it (§3.2).
    pub fn report<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        if news.src() == self.me {
            return self.repeat_later(world, news);
        }
        // No other node will receive news that is on its way to a controller, so no answer could end the repetition.
        // Therefore such news is reported only once.
        if world.setup().params.control == Controlled::Decentralized {
            let (now, timeout) = (world.now(), world.setup().params.timeout);
            if !self.reports.dropped(now, timeout, news) {
                return;
            }
            world.wake_at(now + timeout, NodeTimer::Report);
        }
        self.put_control(world, news.src(), ControlPacket::Lost(news));
    }

    /// Repeats the reports of broadcasts that the node has dropped and not received again for too long.
    pub(super) fn report_again<W: World<Flow = F>>(&mut self, world: &mut W) {
        let (now, timeout) = (world.now(), world.setup().params.timeout);
        while let Some((news, next)) = self.reports.poll(now, timeout) {
            world.wake_at(next, NodeTimer::Report);
            self.put_control(world, news.src(), ControlPacket::Lost(news));
        }
    }

    /// Schedules the repetition of one of the node's broadcasts along another tree, unless it is scheduled already.
    pub fn repeat_later<W: World<Flow = F>>(&mut self, world: &mut W, news: BroadcastContent) {
        if self.repeats.iter().any(|repeat| repeat.is_like(news)) {
            return;
        }
        self.repeats.push_back(news.along(world.setup().tree(u32::from(news.tree()) + 1)));
        world.wake_at(world.now() + REPEAT_AFTER, NodeTimer::Repeat);
    }

    /// Repeats the next scheduled broadcast, unless it is outdated.
    pub(super) fn repeat<W: World<Flow = F>>(&mut self, world: &mut W) {
        let repeat = self.repeats.pop_front();
        let Some(news) = repeat.and_then(|news| self.still(world, news)) else { return };
        match world.setup().params.control {
            Controlled::Central => self.tell_controller(world, news),
            Controlled::Decentralized => self.send_out(world, news),
        }
    }

    /// Returns the current version of the news, because the flow may ask for something else by now, or `None` if the
    /// news is outdated.
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
