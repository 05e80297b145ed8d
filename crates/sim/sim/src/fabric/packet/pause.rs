//! Priority flow control (IEEE 802.1Q clause 36): a switch that holds many bytes that came by one link asks the sender at the far end of
//! the link to pause.
//!
//! A pause frame can be lost where links fail. Therefore each pause expires after 65,535 quanta (IEEE 802.1Q figure 36-3; 336 us at 100
//! Gb/s), and a switch that needs a longer pause repeats its request after half of that time. A link that dies during a pause thus delays
//! its sender no longer than one pause: after it, the waiting packets leave, and are lost like the packets from a switch port without a
//! link. A packet that arrives in spite of a requested pause, and finds no room, is dropped.
//!
//! Departure: in a network without faults, a pause lasts until its end is announced, and is not repeated. The behaviour is the same, except
//! for 84 B now and then. A link that goes down does not end a pause at once.

use super::headroom::{FRAME, PfcHeadroom};
use super::{Event, Packet, Queue, Transport, Wires};
use crate::fabric::stream::StreamPlan;
use std::collections::BTreeMap;
use unrack_engine as engine;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Hop, LinkId, Mechanism, Observer, PacketKind};
use unrack_engine::network::Departure;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;
use unrack_workload::NodeId;

/// Bytes of the longest pause: 65,535 quanta of 512 bits.
const LONGEST: u64 = 65_535 * 64;

/// Bytes that switches hold of each link, and the links whose senders have been asked to pause. Links are numbered: first the links of
/// nodes, then the links behind switch ports.
pub(super) struct Pauses {
    headroom: PfcHeadroom,
    links: Vec<PausedPort>,
    /// Time at which the latest pause of each link's sender expires. `ZERO` if no expiry is scheduled, as always in a network without
    /// faults.
    until: Vec<Time>,
}

struct PausedPort {
    bytes: u64,
    asked: bool,
    /// Whether an event is scheduled to check if the request must be repeated.
    repeats: bool,
    /// Switch that receives from the link.
    switch: u32,
    /// Port of that switch that leads back to the sender.
    back: u32,
}

impl Pauses {
    pub(super) fn new(plan: &StreamPlan) -> Result<Pauses, SetupError> {
        let (headroom, topology) = (PfcHeadroom::new(plan)?, &plan.network.topology);
        let mut ports = BTreeMap::new();
        for port in 0..topology.ports() {
            ports.insert((topology.owner(port), topology.end(port)), port);
        }
        let held = |back| {
            let switch = topology.owner(back);
            PausedPort { bytes: 0, asked: false, repeats: false, switch, back }
        };
        let hosts = (0..topology.nodes()).map(|node| ports[&(topology.switch_of(node), LinkEnd::Node(node))]);
        let behind = (0..topology.ports()).map(|port| match topology.end(port) {
            LinkEnd::Switch(switch) => ports[&(switch, LinkEnd::Switch(topology.owner(port)))],
            // Nodes accept every packet, so they never ask for a pause.
            LinkEnd::Node(_) => port,
        });
        let links: Vec<PausedPort> = hosts.chain(behind).map(held).collect();
        let until = vec![Time::ZERO; links.len()];
        Ok(Pauses { headroom, links, until })
    }
}

#[cfg(test)]
impl Pauses {
    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(|held| held.bytes == 0 && !held.asked) && self.headroom.is_empty()
    }
}

impl<T: Transport> Wires<T> {
    /// Counts a data packet that starts to wait as bytes held of the link by which it came. Returns whether the switch has room for it.
    pub(super) fn hold<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        packet: &Packet<T::Header>,
    ) -> bool {
        let Some(pauses) = self.pauses.as_mut().filter(|_| packet.rank > 0) else { return true };
        let (held, wire) = (&mut pauses.links[packet.came_by as usize], u64::from(packet.wire));
        if !pauses.headroom.takes(held.switch, held.bytes, wire) {
            debug_assert!(self.plan.network.topology.faults().is_some(), "headroom was not enough");
            return false;
        }
        held.bytes += wire;
        pauses.headroom.came(held.switch, wire);
        self.ask(core, packet.came_by);
        true
    }

    /// Counts a data packet that leaves after it waited.
    pub(super) fn let_go<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        packet: &Packet<T::Header>,
    ) {
        let Some(pauses) = self.pauses.as_mut().filter(|_| packet.rank > 0) else { return };
        let (held, wire) = (&mut pauses.links[packet.came_by as usize], u64::from(packet.wire));
        held.bytes -= wire;
        pauses.headroom.left(held.switch, wire);
        self.ask(core, packet.came_by);
    }

    /// Asks the sender of a link to pause, or to resume, if the bytes held of the link require it.
    fn ask<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, link: u32) {
        let Some(pauses) = &mut self.pauses else { return };
        let held = &mut pauses.links[link as usize];
        let ask = pauses.headroom.asks(held.switch, held.bytes, held.asked);
        if ask != held.asked {
            held.asked = ask;
            if ask {
                core.acted(Mechanism::Pause);
            }
            self.send_pause(core, link, ask);
        }
    }

    /// Repeats the request to pause, if it is still needed. Called half of a pause's length after the last request.
    pub(super) fn repeat_pause<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, link: u32) {
        let Some(pauses) = &mut self.pauses else { return };
        let held = &mut pauses.links[link as usize];
        held.repeats = false;
        if held.asked {
            self.send_pause(core, link, true);
        }
    }

    /// Sends a pause frame to the sender of `link`, as soon as the packet on the link back to that sender has left.
    fn send_pause<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, link: u32, pause: bool) {
        let Some(pauses) = &mut self.pauses else { return };
        let topology = &self.plan.network.topology;
        let held = &mut pauses.links[link as usize];
        let back = held.back;
        let port = &mut self.ports[back as usize];
        if pause && topology.faults().is_some() && !std::mem::replace(&mut held.repeats, true) {
            core.schedule(core.now() + port.pace.transmit(LONGEST / 2), Event::PauseAgain(link));
        }
        let first = port.free_at.max(core.now());
        let last = first + port.pace.transmit(FRAME);
        port.free_at = last;
        let (at, propagation, ready) = (last + port.propagation, port.propagation, core.now());
        let nodes = self.hosts.len() as u32;
        let sender = link.checked_sub(nodes).map(|port| topology.owner(port));
        let is_lost = core.met_fault(topology.loses(LinkId::Port(back), Departure { first, last }));
        match sender.and_then(|switch| self.elsewhere(switch)) {
            _ if is_lost => {}
            Some(part) => self.cross_pause(part, at, link, pause),
            None => core.schedule(at, Event::Pause { link, pause }),
        }
        core.hop(LinkId::Port(back), last - first, || Hop {
            link: LinkId::Port(back),
            message: None,
            packet: engine::ObservedPacket::new(PacketKind::Pause, link.min(nodes), link.min(nodes)),
            wire: FRAME as u32,
            payload: 0,
            ready,
            first,
            last,
            shares: false,
            repeated: Time::ZERO,
            serial: last - first,
            propagation,
            onward: at,
        });
    }

    /// Takes a pause frame that has arrived at the sender of this link. Returns the node that may resume, if the sender is a node.
    pub(super) fn take_pause<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        link: u32,
        pause: bool,
    ) -> Option<NodeId> {
        if pause && self.plan.network.topology.faults().is_some() {
            self.limit_pause(core, link);
        }
        self.set_paused(core, link, pause)
    }

    /// Sets the time at which a new or repeated pause expires.
    fn limit_pause<O: Observer>(&mut self, core: &mut Core<Event<T::Timer>, O>, link: u32) {
        let Some(pauses) = &mut self.pauses else { return };
        let pace = match link.checked_sub(self.hosts.len() as u32) {
            Some(port) => self.ports[port as usize].pace,
            None => self.plan.network.topology.host_link().pace,
        };
        let until = core.now() + pace.transmit(LONGEST);
        if std::mem::replace(&mut pauses.until[link as usize], until) == Time::ZERO {
            core.schedule(until, Event::PauseEnds(link));
        }
    }

    /// Ends a pause whose time is over. Returns the node that may resume, if the sender is a node.
    pub(super) fn end_pause<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        link: u32,
    ) -> Option<NodeId> {
        let until = &mut self.pauses.as_mut()?.until[link as usize];
        if *until > core.now() {
            core.schedule(*until, Event::PauseEnds(link));
            return None;
        }
        *until = Time::ZERO;
        self.set_paused(core, link, false)
    }

    fn set_paused<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        link: u32,
        pause: bool,
    ) -> Option<NodeId> {
        let nodes = self.hosts.len() as u32;
        if link < nodes {
            self.hosts[link as usize].paused = pause;
            return (!pause).then_some(link);
        }
        let number = link - nodes;
        let port = &mut self.ports[number as usize];
        port.queue.pause(pause);
        if !pause && !port.draining && !port.queue.is_empty() {
            port.draining = true;
            core.schedule(port.free_at.max(core.now()), Event::PortFree(number));
        }
        None
    }
}
