//! Broadcasts: told by a source, passed on along a tree, reported and repeated if a copy is lost (§3.2).

use super::wire::{Body, Packet, Spread};
use super::{Event, NONE, R2c2};
use crate::engine::{Core, Hop, LinkId, Observer, Packet as Seen, PacketKind};
use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::packet::{BROADCAST, Broadcast, Event as Told};
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;

/// A full queue of 36 KiB at 10 Gb/s is a third emptier by then.
const REPEAT_AFTER: Time = Time::from_us(10);

impl R2c2 {
    pub(super) fn announce<O: Observer>(&mut self, core: &mut Core<Event, O>, told: Broadcast) {
        self.nodes[usize::from(told.src)].view.hear(core.now(), &told);
        let spread = self.spreads.insert(Spread { told, copies: 1 });
        self.spread(core, u32::from(told.src), spread);
        self.drop_copy(spread);
    }

    /// A node passes a broadcast on.
    fn spread<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, spread: u32) {
        let told = self.spreads[spread].told;
        let mut mask = self.trees.ports(node, u32::from(told.src), told.tree);
        while mask != 0 {
            let link = self.graph.links_of(node).start + mask.trailing_zeros();
            mask &= mask - 1;
            match self.cross_with_broadcast(core, link, &told) {
                Some(at) => {
                    self.spreads[spread].copies += 1;
                    core.schedule(at, Event::Heard { spread, link });
                }
                None => self.report(core, node, told),
            }
        }
    }

    /// When it is at the other end; `None`: it is lost.
    fn cross_with_broadcast<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: u32,
        told: &Broadcast,
    ) -> Option<Time> {
        let (now, wire) = (core.now(), BROADCAST as u64);
        let place = &mut self.links[link as usize];
        if place.port.backlog(now) + wire > self.buffer {
            return None;
        }
        let departure = place.port.enqueue(now, wire);
        let at = departure.last + place.propagation;
        let propagation = place.propagation;
        core.hop(|| Hop {
            link: LinkId::Port(link),
            message: None,
            packet: Seen::new(PacketKind::Notification, u32::from(told.src), u32::from(told.dst)),
            wire: wire as u32,
            payload: 0,
            ready: now,
            first: departure.first,
            last: departure.last,
            shares: false,
            serial: departure.last - departure.first,
            propagation,
            onward: at,
        });
        (!self.network.topology.loses(LinkId::Port(link), departure)).then_some(at)
    }

    pub(super) fn heard<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32, link: u32) {
        let node = self.links[link as usize].to;
        let told = self.spreads[spread].told;
        self.nodes[node as usize].view.hear(core.now(), &told);
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

    /// A node had to drop a broadcast, and tells its source (§3.2).
    fn report<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, told: Broadcast) {
        let src = u32::from(told.src);
        if node == src {
            return self.repeat_later(core, told);
        }
        let route = self.draw(Ways { routing: Routing::Spraying, src: node, dst: src, flow: 0 });
        let wire = self.wire(BROADCAST as u64);
        self.put(core, node, Packet { flow: NONE, body: Body::Lost(told), route, done: 0, wire, payload: 0 });
    }

    pub(super) fn repeat_later<O: Observer>(&mut self, core: &mut Core<Event, O>, told: Broadcast) {
        let repeats = &mut self.nodes[usize::from(told.src)].repeats;
        if repeats.contains(&(told.flow, told.event)) {
            return;
        }
        repeats.push((told.flow, told.event));
        let tree = ((u16::from(told.tree) + 1) % u16::from(self.params.trees)) as u8;
        let spread = self.spreads.insert(Spread { told: Broadcast { tree, ..told }, copies: 1 });
        core.schedule(core.now() + REPEAT_AFTER, Event::Repeat { spread });
    }

    /// What is no longer so is not told again.
    pub(super) fn repeat<O: Observer>(&mut self, core: &mut Core<Event, O>, spread: u32) {
        let told = self.spreads[spread].told;
        self.nodes[usize::from(told.src)].repeats.retain(|repeat| *repeat != (told.flow, told.event));
        let is_it = |flow: &&u32| {
            let flow = &self.flows[**flow];
            flow.told.flow == told.flow && !flow.sender.transfer.is_through()
        };
        // As it is now: it may ask for something else meanwhile.
        let open =
            self.nodes[usize::from(told.src)].own.iter().find(is_it).map(|flow| self.flows[*flow].told);
        if let Some(now) = open {
            self.spreads[spread].told = Broadcast { event: told.event, tree: told.tree, ..now };
        }
        if told.event == Told::End || open.is_some() {
            self.spread(core, u32::from(told.src), spread);
        }
        self.drop_copy(spread);
    }
}
