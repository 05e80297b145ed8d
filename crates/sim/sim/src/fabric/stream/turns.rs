//! Subflows that take turns at the links, and the host queues, by which nodes send.

use super::kind::{Kind, SubflowsOf};
use super::nic::QUANTUM;
use super::{Event, Streams};
use unrack_engine::events::{Core, Observer, Wait};
use unrack_protocol::tcp::{SendingEnd, StreamSignal, SubflowSet};
use unrack_units::Time;

/// Returns the number of a subflow among those of all streams.
pub(super) fn flow<K: Kind>(stream: u32, subflow: u32) -> u32 {
    stream * SubflowsOf::<K>::MOST + subflow
}

/// Returns the stream and the subflow of a number made by [`flow`].
pub(super) fn stream_of<K: Kind>(flow: u32) -> (u32, u32) {
    (flow / SubflowsOf::<K>::MOST, flow % SubflowsOf::<K>::MOST)
}

impl<K: Kind> Streams<K> {
    /// Returns the link by which a subflow sends its next packet.
    pub(in crate::fabric) fn nic_of(&self, now: Time, stream: u32, subflow: u32) -> u32 {
        let place = &self.streams[stream];
        self.plan.network.topology.attachment_at(place.src, place.dst, place.hash(subflow), now)
    }

    /// Returns whether a stream may send by this link at once.
    pub(in crate::fabric) fn is_open(&self, now: Time, stream: u32, nic: u32) -> bool {
        let Some(hosts) = &self.hosts else { return self.nics[nic as usize].is_open(now, self.nic_limit) };
        let (from, to) = (self.streams[stream].src, self.streams[stream].dst);
        hosts.is_open(from, to, hosts.way(from, to, nic))
    }

    /// Queues a subflow for its turn, behind others that send by the same link or host queue.
    pub(in crate::fabric) fn wait<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        subflow: u32,
        nic: u32,
    ) {
        let place = &mut self.streams[stream];
        place.waiting.set(subflow, true);
        core.waits(place.id, || Wait::Turn);
        let flow = flow::<K>(stream, subflow);
        if let Some(hosts) = &mut self.hosts {
            let (from, to) = (place.src, place.dst);
            let way = hosts.way(from, to, nic);
            return hosts.wait(from, to, way, flow);
        }
        self.nics[nic as usize].wait(flow);
        self.schedule_refill(core, nic);
    }

    /// Sends up to a quantum by a subflow: one packet, where each takes another path. Returns whether the subflow has
    /// more to send.
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
        sent == quantum && self.streams[stream].sender.wants(subflow)
    }

    /// Sends a segment by one of the `open` subflows, if there is one to send; returns the subflow.
    pub(in crate::fabric) fn send_one<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        open: SubflowsOf<K>,
    ) -> Option<u32> {
        let place = &mut self.streams[stream];
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
        self.nics[nic as usize].refilling = false;
        while let Some(flow) = self.nics[nic as usize].next_ready() {
            let (stream, subflow) = stream_of::<K>(flow);
            K::turn(self, core, stream, subflow);
            // A turn may be empty: the segment that the subflow waited to send again has arrived meanwhile, or another
            // subflow has sent it.
            if self.nics[nic as usize].free_at() > core.now() {
                break;
            }
        }
        if self.nics[nic as usize].has_ready() {
            self.schedule_refill(core, nic);
        }
    }

    fn schedule_refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        let place = &mut self.nics[nic as usize];
        if !place.refilling {
            place.refilling = true;
            core.schedule(place.free_at().max(core.now()), Event::Refill(nic));
        }
    }

    /// Lets subflows take turns at a host's queue that has room.
    pub(super) fn use_room<O: Observer>(&mut self, core: &mut Core<Event, O>, queue: u32) {
        while let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.has_room(queue))
            && let Some(flow) = hosts.next_waiting(queue)
        {
            let (stream, subflow) = stream_of::<K>(flow);
            K::turn(self, core, stream, subflow);
        }
    }
}
