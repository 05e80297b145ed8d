//! Subflows that take turns at the links and host queues by which nodes send.

use super::drive::Drive;
use super::kind::SubflowsOf;
use super::nic::QUANTUM;
use super::open::{flow, stream_of};
use super::{Event, Streams};
use unrack_engine::events::{Core, Observer, WaitReason};
use unrack_protocol::tcp::{SendingEnd, StreamSignal, SubflowSet};
use unrack_units::Time;

impl<K: Drive> Streams<K> {
    /// Returns the link by which a subflow sends its next packet at this time.
    pub(in crate::fabric) fn nic_of(&self, now: Time, stream: u32, subflow: u32) -> u32 {
        let place = &self.open[stream];
        self.plan.network.topology.attachment_at(place.src, place.dst, place.hash(subflow), now)
    }

    /// Returns whether a stream may send by this link at once, without waiting for its turn.
    pub(in crate::fabric) fn is_open(&self, now: Time, stream: u32, nic: u32) -> bool {
        let Some(hosts) = &self.hosts else { return self.wires.is_open(nic, now) };
        let (from, to) = (self.open[stream].src, self.open[stream].dst);
        hosts.is_open(from, to, hosts.way(from, to, nic))
    }

    /// Queues a subflow for its turn, behind the other subflows that send by the same link or host queue.
    pub(in crate::fabric) fn wait<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        subflow: u32,
        nic: u32,
    ) {
        let place = &mut self.open[stream];
        place.waiting.set(subflow, true);
        core.waits(place.id, || WaitReason::Turn);
        let flow = flow::<K>(stream, subflow);
        if let Some(hosts) = &mut self.hosts {
            let (from, to) = (place.src, place.dst);
            let way = hosts.way(from, to, nic);
            return hosts.wait(from, to, way, flow);
        }
        self.wires.nic(nic).wait(flow);
        self.schedule_refill(core, nic);
    }

    /// Sends up to one quantum of a subflow, or one packet if each packet takes another path. Returns whether the subflow has more to send.
    pub(in crate::fabric) fn send_quantum<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        subflow: u32,
    ) -> bool {
        let quantum = if self.plan.spraying { 1 } else { QUANTUM };
        let only = SubflowsOf::<K>::only(subflow);
        let mut sent = 0;
        while sent < quantum && self.send_one(core, stream, only).is_some() {
            sent += 1;
        }
        self.set_timers(core, stream, only);
        sent == quantum && self.open[stream].sender.wants(subflow)
    }

    /// Sends a segment by one of the `open` subflows. Returns that subflow, or `None` if there is no segment to send, or the
    /// sender is paused.
    pub(in crate::fabric) fn send_one<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        open: SubflowsOf<K>,
    ) -> Option<u32> {
        if self.is_paused(stream) {
            return None;
        }
        let place = &mut self.open[stream];
        let before = place.sender.retransmissions();
        let (segment, signal) = place.sender.poll_transmit(core.now(), open)?;
        if place.sender.retransmissions() > before {
            core.retransmitted(place.id);
        }
        self.send_data(core, stream, segment, signal);
        Some(signal.subflow())
    }

    /// Lets the subflows that wait for a free link take turns.
    pub(super) fn refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        self.wires.nic(nic).refilling = false;
        while let Some(flow) = self.wires.nic(nic).next_ready() {
            let (stream, subflow) = stream_of::<K>(flow);
            K::turn(self, core, stream, subflow);
            // A turn may send nothing, because the segment that the subflow waited to retransmit has arrived meanwhile, or another subflow
            // has sent it.
            if self.wires.nic(nic).free_at() > core.now() {
                break;
            }
        }
        if self.wires.nic(nic).has_ready() {
            self.schedule_refill(core, nic);
        }
    }

    fn schedule_refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        let place = self.wires.nic(nic);
        if !place.refilling {
            place.refilling = true;
            core.schedule(place.free_at().max(core.now()), Event::Refill(nic));
        }
    }

    /// Lets subflows take turns at a host queue while it has room.
    pub(super) fn use_room<O: Observer>(&mut self, core: &mut Core<Event, O>, queue: u32) {
        while let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.has_room(queue))
            && let Some(flow) = hosts.next_waiting(queue)
        {
            let (stream, subflow) = stream_of::<K>(flow);
            K::turn(self, core, stream, subflow);
        }
    }
}
