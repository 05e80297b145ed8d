//! Broadcasts: announced by a source, forwarded along a tree, reported and repeated if a copy is lost (§3.2).

use super::wire::{Body, Packet, Spread};
use super::{Event, NONE, R2c2};
use crate::engine::{Core, Hop, LinkId, Observer, Packet as Seen, PacketKind};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Assignment, BROADCAST, Broadcast, Event as Told};
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;

/// Delay of a repetition, after which a full queue of 36 KiB at 10 Gb/s is a third emptier.
const REPEAT_AFTER: Time = Time::from_us(10);

impl R2c2 {
    /// Announces news to all nodes, or to the controller if there is one.
    pub(super) fn announce<O: Observer>(&mut self, core: &mut Core<Event, O>, news: News) {
        if self.controller.is_some() {
            return self.tell_controller(core, news);
        }
        self.learn(core.now(), news.src(), news);
        let spread = self.spreads.insert(Spread { news, copies: 1 });
        self.spread(core, news.src(), spread);
        self.drop_copy(spread);
    }

    /// Updates the view of a node that has heard news, or announced it.
    pub(super) fn learn(&mut self, now: Time, node: u32, news: News) {
        let place = &mut self.nodes[node as usize];
        match news {
            // News that was on its way when a failure was found out may name a routing that is no longer possible.
            News::Flow(told) => {
                place.view.hear(now, &Broadcast { routing: self.map.usable(told.routing), ..told });
            }
            News::Routings { number, .. } => {
                for Assignment { src, flow, routing } in &*self.chosen[number as usize] {
                    place.view.reroute((*src, *flow), self.map.usable(*routing));
                    if u32::from(*src) == node {
                        let own = place.own.iter().find(|own| self.flows[**own].told.flow == *flow);
                        if let Some(own) = own.copied() {
                            let own = &mut self.flows[own];
                            (own.routing, own.told.routing) = (*routing, self.map.usable(*routing));
                        }
                    }
                }
            }
        }
    }

    /// Forwards a broadcast from a node along its tree.
    fn spread<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, spread: u32) {
        let news = self.spreads[spread].news;
        for link in self.map.onward(node, news.src(), news.tree()) {
            match self.cross_with_broadcast(core, link, news) {
                Some(at) => {
                    self.spreads[spread].copies += 1;
                    core.schedule(at, Event::Heard { spread, link });
                }
                None => self.report(core, node, news),
            }
        }
    }

    /// Sends a broadcast over a link. Returns when it is at the other end; `None` if it is lost.
    fn cross_with_broadcast<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: u32,
        news: News,
    ) -> Option<Time> {
        let now = core.now();
        // A list is preceded by its name and its tree, like a broadcast of a flow.
        let (wire, about) = match news {
            News::Flow(told) => (BROADCAST as u64, u32::from(told.dst)),
            News::Routings { number, .. } => {
                let list = &self.chosen[number as usize];
                ((BROADCAST + list.len() * Assignment::BYTES) as u64, news.src())
            }
        };
        let place = &mut self.links[link as usize];
        if place.port.backlog(now) + wire > self.buffer {
            return None;
        }
        let departure = place.port.enqueue(now, wire);
        let at = departure.last + place.propagation;
        let propagation = place.propagation;
        core.hop(LinkId::Port(link), departure.last - departure.first, || Hop {
            link: LinkId::Port(link),
            message: None,
            packet: Seen::new(PacketKind::Notification, news.src(), about),
            wire: wire as u32,
            payload: 0,
            ready: now,
            first: departure.first,
            last: departure.last,
            shares: false,
            repeated: Time::ZERO,
            serial: departure.last - departure.first,
            propagation,
            onward: at,
        });
        (!self.network.topology.loses(LinkId::Port(link), departure)).then_some(at)
    }

    pub(super) fn heard<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32, link: u32) {
        let node = self.links[link as usize].to;
        let news = self.spreads[spread].news;
        self.nodes[node as usize].reports.heard(news);
        self.learn(core.now(), node, news);
        self.spread(core, node, spread);
        self.drop_copy(spread);
    }

    fn drop_copy(&mut self, spread: u32) {
        let place = &mut self.spreads[spread];
        place.copies -= 1;
        if place.copies == 0 {
            self.spreads.release(spread);
        }
    }

    /// Tells the source of a broadcast that a node had to drop it (§3.2).
    pub(super) fn report<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, news: News) {
        if node == news.src() {
            return self.repeat_later(core, news);
        }
        // News on its way to a controller will not be heard by any other node, so it is reported once.
        if self.controller.is_none() {
            let (now, timeout) = (core.now(), self.params.timeout);
            if !self.nodes[node as usize].reports.dropped(now, timeout, news) {
                return;
            }
            core.schedule(now + timeout, Event::Report(node));
        }
        self.send_report(core, node, news);
    }

    /// Repeats reports of broadcasts that a node has dropped and not heard again for too long.
    pub(super) fn report_again<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        let (now, timeout) = (core.now(), self.params.timeout);
        while let Some((news, next)) = self.nodes[node as usize].reports.poll(now, timeout) {
            core.schedule(next, Event::Report(node));
            self.send_report(core, node, news);
        }
    }

    fn send_report<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, news: News) {
        let src = news.src();
        // If no path leads there, the source will be told of this failure and announce its flows again.
        let ways = Ways { routing: Routing::Spraying, src: node, dst: src, flow: 0 };
        let Some(route) = self.draw(ways) else { return };
        let wire = self.wire(BROADCAST as u64);
        self.put(core, node, Packet { flow: NONE, body: Body::Lost(news), route, done: 0, wire, payload: 0 });
    }

    pub(super) fn repeat_later<O: Observer>(&mut self, core: &mut Core<Event, O>, news: News) {
        let repeats = &mut self.nodes[news.src() as usize].repeats;
        if repeats.iter().any(|repeat| repeat.is_like(news)) {
            return;
        }
        repeats.push(news);
        let tree = ((u16::from(news.tree()) + 1) % u16::from(self.params.trees)) as u8;
        let spread = self.spreads.insert(Spread { news: news.along(tree), copies: 1 });
        core.schedule(core.now() + REPEAT_AFTER, Event::Repeat { spread });
    }

    /// Repeats a broadcast, unless it is outdated.
    pub(super) fn repeat<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32) {
        let news = self.spreads[spread].news;
        self.nodes[news.src() as usize].repeats.retain(|repeat| !repeat.is_like(news));
        if let Some(news) = self.still(news) {
            self.spreads[spread].news = news;
            match self.controller {
                Some(_) => self.tell_controller(core, news),
                None => self.spread(core, news.src(), spread),
            }
        }
        self.drop_copy(spread);
    }

    /// Returns the news as it is now: a flow may ask for something else meanwhile, or be over.
    fn still(&self, news: News) -> Option<News> {
        let News::Flow(told) = news else { return Some(news) };
        let is_it = |flow: &&u32| {
            let flow = &self.flows[**flow];
            flow.told.flow == told.flow && !flow.sender.transfer.is_through()
        };
        match self.nodes[usize::from(told.src)].own.iter().find(is_it) {
            Some(flow) => {
                let now = self.flows[*flow].told;
                Some(News::Flow(Broadcast { event: told.event, tree: told.tree, ..now }))
            }
            None => (told.event == Told::End).then_some(news),
        }
    }
}
