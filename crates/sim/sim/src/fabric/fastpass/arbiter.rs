//! The server of the arbiter: its link, its processing time, and the times of its batches.

use crate::fabric::stream::StreamPlan;
use unrack_engine::network::Pace;
use unrack_protocol::fastpass::{Allocation, Arbiter, Demand, Params};
use unrack_units::Time;
use unrack_workload::NodeId;

pub(super) struct Server {
    arbiter: Arbiter,
    batch: u32,
    /// Length of a slot: a full packet, and the control packets that the node may send with it.
    slot: Time,
    /// Pace of the server's link, in each direction.
    pace: Pace,
    processing: Time,
    propagation: Time,
    /// Time from the end of a node's link to the arbiter's switch port, or from the end of the arbiter's link to the node's switch port.
    distance: Time,
    /// Time from the match of a batch that serves only one node to its first slot. In this time, the packet with the slots must arrive at
    /// the node.
    lead: Time,
    wire: u32,
    in_free_at: Time,
    served_at: Time,
    out_free_at: Time,
    /// End of the slots of the last batch.
    slots_until: Time,
    /// Start of the last batch; `None` before the first batch.
    batch_at: Option<Time>,
    scheduled: bool,
    allocations: Vec<Allocation>,
}

/// Packet that informs a node of its slots.
pub(super) struct SlotsPacket {
    pub node: NodeId,
    /// Slots of the node, with the time at which each begins.
    pub slots: Vec<(Time, Allocation)>,
    /// Time at which the packet arrives at the switch port of the node.
    pub at: Time,
}

/// Bytes that hold two node numbers, or a node number and a slot (§4: Fastpass control protocol).
const WORD: u64 = 4;

impl Server {
    /// Returns the maximum number of demands in one packet.
    pub(super) fn most(&self) -> usize {
        self.batch as usize
    }

    pub(super) fn new(plan: &StreamPlan, params: &Params) -> Server {
        let network = &plan.network;
        let host = network.topology.host_link();
        let links: Vec<_> = network.links(0, network.nodes() - 1).collect();
        let bare = plan.framing.wire(0).get();
        let between = &links[1..links.len() - 1];
        let distance = between.iter().fold(network.switch_latency, |time, link| {
            time + link.pace.transmit(bare) + link.propagation + network.switch_latency
        });
        let pace = Pace::new(params.arbiter_rate);
        let full_word = plan.framing.wire(WORD * u64::from(params.batch)).get();
        let last_link = host.pace.transmit(full_word) + host.propagation;
        let lead = pace.transmit(full_word) + host.propagation + distance + last_link;
        Server {
            arbiter: Arbiter::new(network.nodes(), params.batch, params.policy),
            batch: params.batch,
            slot: host.pace.transmit(plan.full_packet().get() + full_word + bare),
            pace,
            processing: params.processing,
            propagation: host.propagation,
            distance,
            lead,
            wire: full_word as u32,
            slots_until: Time::ZERO,
            in_free_at: Time::ZERO,
            served_at: Time::ZERO,
            out_free_at: Time::ZERO,
            batch_at: None,
            scheduled: false,
            allocations: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.arbiter.is_idle()
    }

    /// Returns the bytes on the wire of a packet to or from the arbiter, which has room for the slots of a batch.
    pub(super) fn wire(&self) -> u32 {
        self.wire
    }

    /// Returns the time from the last bit of a packet on a node's link to its arrival at the arbiter's switch port.
    pub(super) fn way_up(&self) -> Time {
        self.propagation + self.distance
    }

    pub(super) fn lead(&self) -> Time {
        self.lead
    }

    pub(super) fn slot(&self) -> Time {
        self.slot
    }

    /// Returns the time between the starts of two batches.
    pub(super) fn batch_time(&self) -> Time {
        self.slot * u64::from(self.batch)
    }

    /// Returns how long the arbiter may take for a demand: the time until the demand is served, the wait for the end of a batch, and the
    /// time until the node knows its last slot.
    pub(super) fn patience(&self, plan: &StreamPlan) -> Time {
        self.ask_time(plan) + self.batch_time() * 2 + self.lead
    }

    /// Returns the time from a demand without competition to its batch.
    pub(super) fn ask_time(&self, plan: &StreamPlan) -> Time {
        let wire = u64::from(self.wire);
        let host = plan.network.topology.host_link().pace.transmit(wire);
        host + self.way_up() + self.pace.transmit(wire) + self.propagation + self.processing
    }

    /// Receives a packet with `demands` demands at the arbiter's switch port. Returns when these demands will have been served.
    pub(super) fn asked(&mut self, now: Time, wire: u64, demands: usize) -> Time {
        self.in_free_at = self.in_free_at.max(now) + self.pace.transmit(wire);
        let in_at = self.in_free_at + self.propagation;
        self.served_at = self.served_at.max(in_at) + self.processing * demands as u64;
        self.served_at
    }

    /// Adds a demand. Returns whether the arbiter accepts it: see [`Arbiter::demand`].
    pub(super) fn demand(&mut self, demand: Demand) -> bool {
        self.arbiter.demand(demand)
    }

    /// Returns when a batch must be matched, or `None` if a batch is already scheduled.
    pub(super) fn first_batch(&mut self, now: Time) -> Option<Time> {
        let at = self.batch_at.map_or(now, |last| (last + self.batch_time()).max(now));
        (!std::mem::replace(&mut self.scheduled, true)).then_some(at)
    }

    /// Returns when the next batch after this one must be matched, or `None` if no demand is left.
    pub(super) fn next_batch(&mut self, now: Time) -> Option<Time> {
        self.scheduled = !self.arbiter.is_idle();
        self.scheduled.then(|| now + self.batch_time())
    }

    /// Matches a batch, and returns the packets that inform nodes of their slots. The slots follow the slots of the last batch, and no slot
    /// begins before the last of these packets has arrived.
    pub(super) fn batch(&mut self, now: Time) -> Vec<SlotsPacket> {
        self.batch_at = Some(now);
        self.allocations.clear();
        self.arbiter.allocate(&mut self.allocations);
        self.allocations.sort_by_key(|allocation| (allocation.src, allocation.slot));
        let each = self.pace.transmit(u64::from(self.wire()));
        let from = self.out_free_at.max(now);
        let told = self.allocations.chunk_by(|a, b| a.src == b.src).count() as u64;
        self.out_free_at = from + each * told;
        let first_slot = self.slots_until.max(self.out_free_at + self.lead - each);
        self.slots_until = first_slot + self.batch_time();
        let of_nodes = self.allocations.chunk_by(|a, b| a.src == b.src);
        of_nodes
            .zip(1..)
            .map(|(of_node, nth)| {
                let slot = |allocation: &Allocation| first_slot + self.slot * u64::from(allocation.slot);
                let slots = of_node.iter().map(|allocation| (slot(allocation), *allocation)).collect();
                let at = from + each * nth + self.propagation + self.distance;
                SlotsPacket { node: of_node[0].src, slots, at }
            })
            .collect()
    }
}
