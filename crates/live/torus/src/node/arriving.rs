//! Flows that arrive at a node.

use super::{Event, Node, NodeServices, Packet, SourceFlow};
use crate::plan::WINDOW;
use std::collections::{HashMap, VecDeque};
use unrack_protocol::r2c2::packet::{DATA_HEADER, Data, Kind};
use unrack_protocol::r2c2::transfer::{PartArrival, Reorder};
use unrack_units::Time;

/// Maximum number of places in the re-order buffers of all flows, which limits the memory that a malicious sender can make a node use.
const MOST_PLACES: usize = 1 << 14;
/// Maximum open flows, and most complete flows that are remembered. Two nodes cannot have more flows open between them.
const MOST_FLOWS: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Arriving {
    open: HashMap<SourceFlow, Reorder<Packet>>,
    /// Places in the re-order buffers of open flows.
    places: usize,
    /// Complete flows with their number of segments. They are remembered so that a repeated segment is acknowledged again.
    over: HashMap<SourceFlow, u32>,
    order: VecDeque<SourceFlow>,
}

impl Arriving {
    fn close(&mut self, flow: SourceFlow, parts: u32) {
        self.open.remove(&flow);
        self.over.insert(flow, parts);
        self.order.push_back(flow);
        if self.order.len() > MOST_FLOWS
            && let Some(oldest) = self.order.pop_front()
        {
            self.over.remove(&oldest);
        }
    }

    /// Forgets a flow whose number may soon be reused, because the source's numbers have advanced by half their range since.
    pub(super) fn forget(&mut self, flow: SourceFlow) {
        self.over.remove(&flow);
        if let Some(reorder) = self.open.remove(&flow) {
            self.places -= reorder.span();
        }
    }
}

impl Node {
    /// Handles a segment at its destination.
    pub(super) fn take_part(
        &mut self,
        now: Time,
        data: Data,
        packet: Packet,
        around: &mut impl NodeServices,
    ) {
        let (flow, most) = ((data.src, data.flow), self.own.plan.setup.most);
        let is_last = data.kind == Kind::Last;
        let plen = u64::from(data.plen);
        let is_full = plen == most || (is_last && (1..=most).contains(&plen));
        if !is_full || data.src == self.own.me {
            return self.own.refuse(packet, around);
        }
        if let Some(parts) = self.own.arriving.over.get(&flow).copied() {
            self.own.counters.arrived_bytes += plen;
            around.spare(packet);
            return self.acknowledge(now, flow, (parts, 0), around);
        }
        let Arriving { open, places, .. } = &mut self.own.arriving;
        if open.len() >= MOST_FLOWS && !open.contains_key(&flow) {
            return self.own.lose(packet, around);
        }
        let reorder = open.entry(flow).or_insert_with(|| Reorder::new(WINDOW));
        let before = reorder.span();
        if *places + (WINDOW as usize) > MOST_PLACES && !reorder.is_next(data.seq) {
            return self.own.lose(packet, around);
        }
        let is_again = match reorder.put(data.seq, is_last, packet) {
            PartArrival::Waits => false,
            PartArrival::Again(packet) => {
                around.spare(packet);
                true
            }
            PartArrival::Refused(packet) => return self.own.lose(packet, around),
        };
        self.own.counters.arrived_bytes += plen;
        while let Some((number, packet)) = reorder.pop() {
            around.deliver(flow, u64::from(number) * most, &packet[DATA_HEADER..]);
            around.spare(packet);
        }
        *places = *places + reorder.span() - before;
        self.own.counters.most_waiting = self.own.counters.most_waiting.max(reorder.span() as u64);
        let (is_due, told) =
            (reorder.is_due(is_again, self.own.plan.setup.params.ack_every), reorder.acknowledgement());
        if reorder.is_complete() {
            self.own.arriving.close(flow, told.0);
            around.happened(now, Event::Complete { flow });
        }
        if is_due {
            self.acknowledge(now, flow, told, around);
        }
    }

    fn acknowledge(&mut self, now: Time, flow: SourceFlow, told: (u32, u64), around: &mut impl NodeServices) {
        let (core, mut driven) = self.at(now, around);
        core.acknowledge(&mut driven, flow, flow.0.into(), told);
    }
}
