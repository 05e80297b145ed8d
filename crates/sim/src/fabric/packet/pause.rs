//! Priority flow control (IEEE 802.1Q clause 36): a switch that has much of what came by one link asks the
//! sender at its other end to pause.

use super::{Event, Packet, Queue, Transport, Wires};
use crate::engine::{self, Core, Hop, LinkId, Observer, PacketKind};
use crate::error::SetupError;
use crate::fabric::stream::Plan;
use crate::network::Pace;
use crate::topology::End;
use std::collections::BTreeMap;
use unrack_units::{Bytes, Time};
use unrack_workload::NodeId;

/// A pause frame on the wire: the shortest there is, with preamble and gap.
pub(super) const FRAME: u64 = 64 + 8 + 12;

/// What a switch holds by the link that it came by, and whom it has asked to pause. Links are numbered:
/// those of nodes, then those behind switch ports.
pub(super) struct Pauses {
    /// More than this of one link: pause.
    above: u64,
    /// Less than this again: go on.
    below: u64,
    links: Vec<Held>,
}

struct Held {
    bytes: u64,
    asked: bool,
    /// The port at the receiving switch that leads back.
    back: u32,
}

impl Pauses {
    /// As much of each port's buffer as is not needed for what still comes when a pause is asked for
    /// (DCQCN §4: headroom) may be in use; a sender goes on when two full packets less are.
    pub(super) fn new(plan: &Plan) -> Result<Pauses, SetupError> {
        let (topology, full) = (&plan.network.topology, plan.full_packet().get());
        // A frame waits for a packet under way, crosses the link, and finds a packet under way there; what is
        // on the link and in the switch's pipeline by then comes, and a packet at its end that stores first.
        let headroom = |link: crate::topology::Link| {
            let time = link.propagation * 2 + plan.network.switch_latency;
            time_bytes(link.pace, time) + 3 * full + FRAME
        };
        let headroom = headroom(topology.host_link()).max(headroom(topology.core_link()));
        let above =
            plan.buffer.get().checked_sub(headroom).filter(|above| *above >= 2 * full).ok_or_else(|| {
                let is = format!("{}, and {} is needed", plan.buffer, Bytes::new(headroom + 2 * full));
                SetupError::new("switch.buffer", "has room for two packets and the headroom of pauses", is)
            })?;
        let mut ports = BTreeMap::new();
        for port in 0..topology.ports() {
            ports.insert((topology.owner(port), topology.end(port)), port);
        }
        let held = |back| Held { bytes: 0, asked: false, back };
        let hosts = (0..topology.nodes()).map(|node| ports[&(topology.switch_of(node), End::Node(node))]);
        let behind = (0..topology.ports()).map(|port| match topology.end(port) {
            End::Switch(switch) => ports[&(switch, End::Switch(topology.owner(port)))],
            // Nodes take all that comes.
            End::Node(_) => port,
        });
        let links = hosts.chain(behind).map(held).collect();
        Ok(Pauses { above, below: above - 2 * full, links })
    }
}

fn time_bytes(pace: Pace, time: Time) -> u64 {
    pace.bytes_in(time) + 1
}

impl<T: Transport> Wires<T> {
    /// Data that came by this link waits now (or leaves, `waits` being false).
    pub(super) fn hold<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        packet: &Packet<T::Header>,
        waits: bool,
    ) {
        let Some(pauses) = &mut self.pauses else { return };
        if packet.rank == 0 {
            return;
        }
        let held = &mut pauses.links[packet.came_by as usize];
        match waits {
            true => held.bytes += u64::from(packet.wire),
            false => held.bytes -= u64::from(packet.wire),
        }
        let ask = if held.asked { held.bytes >= pauses.below } else { held.bytes > pauses.above };
        debug_assert!(held.bytes <= self.plan.buffer.get(), "headroom was not enough");
        if ask != held.asked {
            held.asked = ask;
            let back = held.back;
            self.send_pause(core, back, packet.came_by, ask);
        }
    }

    /// Sends a pause frame back, as soon as what is on that link has left.
    fn send_pause<O: Observer>(
        &mut self,
        core: &mut Core<Event<T::Timer>, O>,
        back: u32,
        link: u32,
        pause: bool,
    ) {
        let port = &mut self.ports[back as usize];
        let first = port.free_at.max(core.now());
        let last = first + port.pace.transmit(FRAME);
        port.free_at = last;
        let (at, propagation, ready) = (last + port.propagation, port.propagation, core.now());
        let nodes = self.hosts.len() as u32;
        let sender = link.checked_sub(nodes).map(|port| self.plan.network.topology.owner(port));
        match sender.and_then(|switch| self.elsewhere(switch)) {
            Some(part) => self.cross_pause(part, at, link, pause),
            None => core.schedule(at, Event::Pause { link, pause }),
        }
        core.hop(|| Hop {
            link: LinkId::Port(back),
            message: None,
            packet: engine::Packet::new(PacketKind::Pause, link.min(nodes), link.min(nodes)),
            wire: FRAME as u32,
            payload: 0,
            ready,
            first,
            last,
            shares: false,
            serial: last - first,
            propagation,
            onward: at,
        });
    }

    /// A pause frame has come to the sender of this link. Returns the node that may go on.
    pub(super) fn take_pause<O: Observer>(
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
