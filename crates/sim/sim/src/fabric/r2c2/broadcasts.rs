//! Broadcasts on links, and at the nodes at their ends.

use super::{Event, R2c2, Rack};
use unrack_engine::events::{Core, Hop, LinkId, ObservedPacket as Seen, Observer, PacketKind};
use unrack_protocol::r2c2::news::News;
use unrack_protocol::r2c2::packet::{Assignment, BROADCAST};
use unrack_units::Time;

impl R2c2 {
    /// Has the node at the end of a link hear a broadcast.
    pub(super) fn heard<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32, link: u32) {
        let news = self.rack.spreads[spread].news;
        let (node, mut around) = self.at(core, self.rack.links[link as usize].to);
        match news {
            News::Flow(_) => node.hear(&mut around, news, &[], &spread),
            News::Routings { number, .. } => {
                let pairs = around.rack.chosen[number as usize].clone();
                node.hear(&mut around, news, &pairs, &spread);
            }
        }
        self.rack.drop_copy(spread);
    }
}

impl Rack {
    /// Notes that a copy of a broadcast is no longer under way.
    pub(super) fn drop_copy(&mut self, spread: u32) {
        let place = &mut self.spreads[spread];
        place.copies -= 1;
        if place.copies == 0 {
            self.spreads.release(spread);
        }
    }

    /// Sends a broadcast over a link. Returns when it is at the other end; `None` if it is lost.
    pub(super) fn cross_with_broadcast<O: Observer>(
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
}
