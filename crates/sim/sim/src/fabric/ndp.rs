//! `ndp`: full switches trim packets to their headers, and receivers pull the rest (Handley et al., SIGCOMM 2017).
//!
//! The transfers of a node take turns on its link, one packet each. Headers, pulls and acknowledgements are sent before data.

use super::packet::{self, Net, Packet, PacketNetwork, TransferSide, Transport, Trimming, fabric_of_packets};
use super::single_message::Lone;
use super::stream::StreamPlan;
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::job::Finished;
use crate::site::{Ethernet, FabricSite};
use std::collections::VecDeque;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_engine::run::Run;
use unrack_protocol::ndp::{Params, PullQueue, Sender, Timeouts};
use unrack_protocol::segments::SegmentSet;
use unrack_rack::{Profile, Protocol};
use unrack_units::{Time, Warning};
use unrack_workload::{Message, NodeId};

/// NDP on a network.
pub struct Ndp {
    network: PacketNetwork<NdpEnds>,
}

impl Ndp {
    /// Creates the endpoints and the queues.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Ndp, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let window = plan.line_rate_window("fabric.initial_window", params.initial_window)?;
        if params.data_packets == 0 {
            return Err(SetupError::new("fabric.data_packets", "is at least 1", 0));
        }
        let data = plan.full_packet().get().saturating_mul(params.data_packets.into());
        let data = data.min(plan.buffer.of_port().get()) * plan.ports_on_the_way();
        let headers = plan.window_of_every_node(window, plan.framing.wire(0));
        let waiting = data + headers + reports_that_wait(&plan, window);
        let rto = params.rto.unwrap_or(plan.three_trips_or(waiting));
        if rto < plan.round_trip() {
            return Err(SetupError::new("fabric.rto", "is at least the round trip", rto));
        }
        let header = plan.framing.wire(0).get() as u32;
        let queue = Trimming::new(params.data_packets, header);
        let ends = NdpEnds::new(&plan, window, rto);
        Ok(Ndp { network: PacketNetwork::new(plan, ends, queue)? })
    }
}

impl Registered for Ndp {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "ndp",
        about: "switches trim packets to their headers, and receivers pull the following ones",
        splits: <NdpEnds as Transport>::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 240.0,
        port: 145.0,
        open: 400.0,
        segment: 3.0 * Cost::BIT,
        packet: 1.2 * PACKET,
        overhead: 2.0 * Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Ndp, SetupError> {
        let Ndp { network } = Ndp::new(site.network, site.ethernet, params)?;
        Ok(Ndp { network: network.seeded(site.seed) })
    }

    fn never_acted(_params: &Params, run: &Run) -> Vec<Warning> {
        let text = "switches of ndp trimmed nothing, because no queue held `fabric.data_packets` packets: senders had room at once";
        let is_noted = run.counters.trimmed_packets == 0;
        is_noted.then(|| Warning::new("trims", text)).into_iter().collect()
    }

    fn split(parts: SplitRun, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<Ndp>(params)
    }
}

struct NdpEnds {
    window: u32,
    rto: Time,
    /// Timeout for lost pulls: see [`Timeouts::idle`].
    idle: Time,
    pacing: Pacing,
    transfers: Vec<NdpPair>,
    nodes: Vec<Node>,
    /// Completion times of messages that are alone, as far as they were simulated.
    lone: Lone,
}

struct NdpPair {
    sender: Sender,
    /// Whether the transfer is counted in [`Node::unsent`].
    is_unsent: bool,
    /// Whether the transfer is in the queue for the node's link.
    waits: bool,
    arrived: SegmentSet,
    /// Number of pulls that the receiver has sent for this transfer.
    pulls: u32,
}

#[derive(Default)]
struct Node {
    /// Queue of transfers that may send, in round-robin order.
    turns: VecDeque<u32>,
    /// Number of transfers with segments that are to be sent or retransmitted.
    unsent: u32,
    pulls: PullQueue,
    /// Time of the next scheduled [`Poll`].
    polled_at: Option<Time>,
}

impl Node {
    /// Updates the count of this node's transfers with unsent segments. `is_unsent`: whether the transfer now has any.
    fn count_unsent(&mut self, pair: &mut NdpPair, is_unsent: bool) {
        let before = std::mem::replace(&mut pair.is_unsent, is_unsent);
        self.unsent = self.unsent + u32::from(is_unsent) - u32::from(before);
    }

    /// Returns the transfer to pull now: see [`PullQueue::poll`].
    fn poll_pull(&mut self, now: Time, pacing: Pacing) -> Option<(u32, bool)> {
        self.pulls.poll(now, if self.unsent > 0 { pacing.beside_data } else { pacing.alone })
    }
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    Segment(u32),
    Ack(u32),
    Nack(u32),
    /// Number of pulls sent for this transfer so far.
    Pull(u32),
    /// All segments have arrived.
    Done,
}

/// Timer event: this node may have a pull to send.
#[derive(Debug, Clone, Copy)]
pub struct Poll(NodeId);

/// Returns the bytes of the reports on one packet: an acknowledgement and a pull.
fn reports(plan: &StreamPlan) -> u64 {
    2 * plan.framing.wire(0).get()
}

/// Returns whether a node can send the reports on a packet in the time that the packet takes to arrive. If not, the reports compete with
/// data for the link: see [`Pacing`]. (The paper does not treat this case, because its packets have 9,000 B.)
fn reports_fit(plan: &StreamPlan) -> bool {
    reports(plan) <= plan.full_packet().get()
}

/// Returns the bytes of reports that wait at a receiver after each node has sent it a window of packets. Returns 0 if reports fit in the
/// time of the packets.
fn reports_that_wait(plan: &StreamPlan, window: u32) -> u64 {
    let packets = u64::from(window).saturating_mul(plan.network.nodes().into());
    if reports_fit(plan) { 0 } else { reports(plan).saturating_mul(packets) }
}

/// Time between two pulls of a node.
///
/// It is the time of a packet (§3.2), unless the reports on a packet take longer than the packet (an MTU below 142 B, with headers). In
/// that case, pulls at the rate of packets would request more packets than the node can report. The reports are sent first, so they would
/// keep the node's data from the link; senders would time out and retransmit packets that only wait for their report; and the network would
/// collapse.
#[derive(Debug, Clone, Copy)]
struct Pacing {
    /// Time between pulls while the node has no data to send.
    alone: Time,
    /// Time between pulls while the node has data to send. It includes the time of one data packet, because the node's link carries a data
    /// packet for each packet that the node pulls, so that traffic in the two directions gets the same share.
    beside_data: Time,
}

impl Pacing {
    fn new(plan: &StreamPlan) -> Pacing {
        let time = |bytes| plan.network.topology.host_link().pace.transmit(bytes);
        let (packet, reports) = (plan.full_packet().get(), reports(plan));
        match reports_fit(plan) {
            true => Pacing { alone: time(packet), beside_data: time(packet) },
            false => Pacing { alone: time(reports), beside_data: time(packet + reports) },
        }
    }
}

/// Rank of headers and control packets, which are never trimmed.
const CONTROL: u32 = 0;
/// Rank of data.
const DATA: u32 = 1;

impl NdpEnds {
    fn new(plan: &StreamPlan, window: u32, rto: Time) -> NdpEnds {
        let pacing = Pacing::new(plan);
        let nodes = (0..plan.network.nodes()).map(|_| Node::default()).collect();
        // The idle timeout allows for two round-robin turns, with all nodes sending to one receiver.
        let idle = rto + pacing.beside_data * 2 * u64::from(plan.network.nodes());
        NdpEnds { window, rto, idle, pacing, transfers: Vec::new(), nodes, lone: Lone::default() }
    }

    /// Returns the fabric in its state before the first message, on a network without faults and with ports that never trim packets.
    fn afresh(&self, plan: &StreamPlan) -> Ndp {
        let plan = plan.without_faults();
        let ends = NdpEnds::new(&plan, self.window, self.rto);
        let queue = Trimming::new(u32::MAX, plan.framing.wire(0).get() as u32);
        Ndp { network: PacketNetwork::new(plan, ends, queue).expect("made once already") }
    }

    fn sendable<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let src = net.transfer(transfer).src;
        let pair = &mut self.transfers[transfer as usize];
        self.nodes[src as usize].count_unsent(pair, pair.sender.has_unsent());
        let ready = pair.sender.is_ready();
        net.waits(transfer, || if ready { WaitReason::Turn } else { WaitReason::Grant });
        if ready && !pair.waits {
            pair.waits = true;
            self.nodes[src as usize].turns.push_back(transfer);
            net.wake(src);
        }
    }

    fn done<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let sender = &mut self.transfers[transfer as usize].sender;
        if !sender.is_done() {
            sender.handle_done();
            self.leave_turns(net, transfer);
            net.close(transfer);
        }
    }

    /// Removes a transfer from its node's queue for the link, because the transfer's number may be reused before its turn comes.
    fn leave_turns<O: Observer>(&mut self, net: &Net<Self, O>, transfer: u32) {
        let node = &mut self.nodes[net.transfer(transfer).src as usize];
        let pair = &mut self.transfers[transfer as usize];
        node.count_unsent(pair, false);
        if std::mem::take(&mut pair.waits) {
            node.turns.retain(|other| *other != transfer);
        }
    }

    fn reply<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, header: Header) {
        let (node, to) = (net.transfer(transfer).dst, net.transfer(transfer).src);
        net.send_first(node, Packet::new(transfer, to, net.bare(), CONTROL, header));
    }

    /// Sends the pulls that are due now.
    fn pull<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) {
        while let Some((transfer, is_last)) = self.nodes[node as usize].poll_pull(net.now(), self.pacing) {
            let pair = &mut self.transfers[transfer as usize];
            pair.pulls += 1;
            let header = Header::Pull(pair.pulls);
            self.reply(net, transfer, header);
            if is_last {
                net.release(transfer);
            }
        }
        let Node { pulls, polled_at, .. } = &mut self.nodes[node as usize];
        if let Some(at) = pulls.next().filter(|_| polled_at.is_none()) {
            *polled_at = Some(at);
            net.schedule(at, Poll(node));
        }
    }

    fn take_segment<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>, number: u32) {
        let (transfer, node) = (packet.transfer, packet.to);
        let segments = net.transfer(transfer).segments;
        let pair = &mut self.transfers[transfer as usize];
        let known = pair.arrived.contains(number);
        let new = !packet.trimmed && pair.arrived.insert(number);
        if pair.arrived.count() == segments {
            if self.nodes[node as usize].pulls.remove(transfer) {
                net.release(transfer);
            }
            // A new complete request gets no reply, because its answer acknowledges it.
            if !new || net.delivered(transfer) {
                self.reply(net, transfer, Header::Done);
            }
            return;
        }
        // A segment that had arrived before was retransmitted without a pull. It must not cause a pull, otherwise one more packet would be
        // in flight.
        if known {
            return self.reply(net, transfer, Header::Ack(number));
        }
        // Keep the transfer until the pull that it is owed has been sent.
        if self.nodes[node as usize].pulls.add(transfer) {
            net.hold(transfer);
        }
        self.pull(net, node);
        let header = if packet.trimmed { Header::Nack(number) } else { Header::Ack(number) };
        self.reply(net, transfer, header);
    }
}

impl Transport for NdpEnds {
    type Header = Header;
    type Timer = Poll;
    type Queue = Trimming;
    const SPRAYS: bool = true;
    const SPLITS: bool = true;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let segments = net.transfer(transfer).segments;
        let timeouts =
            Timeouts { rto: self.rto, idle: self.idle, salt: net.salt(transfer, TransferSide::Sender) };
        let sender = Sender::new(segments, self.window, timeouts, net.now());
        let arrived = SegmentSet::new(segments);
        let pair = NdpPair { sender, is_unsent: false, waits: false, arrived, pulls: 0 };
        packet::put(&mut self.transfers, transfer, pair);
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.sendable(net, transfer);
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        loop {
            let transfer = self.nodes[node as usize].turns.pop_front()?;
            let pair = &mut self.transfers[transfer as usize];
            pair.waits = false;
            let sent = pair.sender.poll_transmit(net.now());
            self.sendable(net, transfer);
            let Some((segment, again)) = sent else { continue };
            if again {
                net.retransmitted(transfer);
            }
            self.keep_alarm(net, transfer, TransferSide::Sender);
            let (to, size) = (net.transfer(transfer).dst, net.segment(transfer, segment));
            return Some(Packet::new(transfer, to, size, DATA, Header::Segment(segment)));
        }
    }

    fn is_ready(&self, node: NodeId) -> bool {
        !self.nodes[node as usize].turns.is_empty()
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let transfer = packet.transfer;
        let sender = &mut self.transfers[transfer as usize].sender;
        let now = net.now();
        match packet.header {
            Header::Segment(number) => return self.take_segment(net, packet, number),
            Header::Done => return self.done(net, transfer),
            Header::Ack(segment) => sender.handle_ack(now, segment),
            Header::Nack(segment) => sender.handle_nack(now, segment),
            Header::Pull(pull) => sender.handle_pull(now, pull),
        }
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.sendable(net, transfer);
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        self.done(net, request);
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Segment(number) => (PacketKind::Data, Some(number)),
            Header::Ack(number) => (PacketKind::Ack, Some(number)),
            Header::Nack(number) => (PacketKind::Nack, Some(number)),
            Header::Pull(_) => (PacketKind::Grant, None),
            Header::Done => (PacketKind::Ack, None),
        }
    }

    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, Poll(node): Poll) {
        self.nodes[node as usize].polled_at = None;
        self.pull(net, node);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| node.turns.is_empty() && node.pulls.next().is_none())
    }

    /// Returns the completion time of a message alone. It is computed if the reports on a packet fit in the time of the packet. Otherwise
    /// it is simulated, because pulls are then slower than packets.
    fn unloaded(&self, plan: &StreamPlan, message: &Message) -> Time {
        match reports_fit(plan) {
            true => packet::alone::<Self>(plan, message, None, |_, _| Time::ZERO),
            false => self.lone.completion(&plan.network, message, || self.afresh(plan)),
        }
    }

    fn deadline(&self, transfer: u32, _side: TransferSide) -> Option<Time> {
        self.transfers[transfer as usize].sender.poll_timeout()
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, _side: TransferSide) {
        let sender = &mut self.transfers[transfer as usize].sender;
        sender.handle_timeout(net.now());
        if sender.has_given_up() {
            self.leave_turns(net, transfer);
            return net.give_up(transfer);
        }
        self.sendable(net, transfer);
    }
}

fabric_of_packets!(Ndp, Poll, Header);
