//! Transfers: the state of each transfer at its two ends, and how long it is kept.

use crate::fabric::slab::Slab;
use std::ops::{Index, IndexMut};
use unrack_protocol::r2c2::node;
use unrack_protocol::r2c2::transfer::Unsaid;
use unrack_protocol::segments::SegmentSet;
use unrack_workload::MessageId;

/// Transfer from one node to another, with the state of its two ends.
pub(super) struct Flow {
    pub message: MessageId,
    pub role: FlowRole,
    pub sending: node::Flow,
    pub receiver: Receiver,
    /// Number of packets of the flow that are in flight.
    pub references: u32,
    pub is_given_up: bool,
}

impl Flow {
    /// Returns the node that sends the flow.
    pub(super) fn src(&self) -> u32 {
        self.sending.told.src.into()
    }

    /// Returns the node that receives the flow.
    pub(super) fn dst(&self) -> u32 {
        self.sending.told.dst.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowRole {
    /// Carries the data of a message. The message is complete when the flow has arrived.
    Data,
    /// Carries a request. The answer is opened when the request has arrived.
    Request,
}

/// All flows of a rack, by index. A flow is stored as long as its source keeps it, or packets of it are in flight.
#[derive(Default)]
pub(super) struct FlowTable(Slab<Flow>);

impl FlowTable {
    #[inline]
    pub(super) fn insert(&mut self, flow: Flow) -> u32 {
        self.0.insert(flow)
    }

    /// Records that the source no longer keeps a flow. If the flow is not done, it was given up.
    #[inline]
    pub(super) fn close(&mut self, flow: u32) {
        let place = &mut self.0[flow];
        place.is_given_up = !place.sending.transfer.is_done();
        if place.is_given_up && place.references == 0 {
            self.0.release(flow);
        }
    }

    /// Records that a packet of a flow is no longer in flight.
    #[inline]
    pub(super) fn drop_reference(&mut self, flow: u32) {
        let place = &mut self.0[flow];
        place.references -= 1;
        if place.references == 0 && (place.sending.transfer.is_done() || place.is_given_up) {
            self.0.release(flow);
        }
    }
}

impl Index<u32> for FlowTable {
    type Output = Flow;
    #[inline]
    fn index(&self, flow: u32) -> &Flow {
        &self.0[flow]
    }
}

impl IndexMut<u32> for FlowTable {
    #[inline]
    fn index_mut(&mut self, flow: u32) -> &mut Flow {
        &mut self.0[flow]
    }
}

/// Receiving end of a flow.
pub(super) struct Receiver {
    got: SegmentSet,
    /// First segment that has not arrived.
    next: u32,
    segments: u32,
    unsaid: Unsaid,
}

impl Receiver {
    /// Creates a receiver of `segments` segments.
    pub(super) fn new(segments: u32) -> Receiver {
        Receiver { got: SegmentSet::new(segments), next: 0, segments, unsaid: Unsaid::default() }
    }

    /// Takes a segment that has arrived. Returns whether it is new, and whether an acknowledgement is due.
    pub(super) fn take(&mut self, segment: u32, ack_every: u32) -> (bool, bool) {
        let is_new = self.got.insert(segment);
        self.next = self.got.first_absent(self.next);
        let is_complete = self.is_complete();
        (is_new, self.unsaid.is_due(is_complete, !is_new, ack_every))
    }

    /// Returns whether all segments have arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.got.count() == self.segments
    }

    /// Returns (next, mask): all segments below `next` have arrived. Of the 64 segments from `next` on, those whose bit is set in `mask`
    /// have arrived.
    pub(super) fn acknowledgement(&self) -> (u32, u64) {
        let next = self.next;
        let beyond = (0..64).filter(|bit| next + bit < self.segments && self.got.contains(next + bit));
        (next, beyond.fold(0, |mask, bit| mask | 1 << bit))
    }
}
