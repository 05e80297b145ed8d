//! `pfc-dcqcn`: switches pause links so that no packet is dropped, and senders reduce their rates before that is needed (DCQCN: Zhu et al.,
//! SIGCOMM 2015; priority flow control: IEEE 802.1Q clause 36).
//!
//! Each transfer is a flow with a separate rate. Each node sends the packets of its flows in order of the times that the rates allow.

use super::packet::{self, Lossless, Net, Packet, PacketNetwork, TransferSide, Transport, fabric_of_packets};
use super::stream::StreamPlan;
use crate::acted::unless_acted;
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::job::Finished;
use crate::site::{Ethernet, FabricSite};
use std::collections::BTreeSet;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Mechanism, Observer, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_engine::run::Run;
use unrack_protocol::dcqcn::{DcqcnRate, LEAST_RTO, Params, Receiver, Reply, Sender};
use unrack_rack::{Profile, Protocol};
use unrack_units::{Time, Warning};
use unrack_workload::NodeId;

/// DCQCN over priority flow control.
pub struct PfcDcqcn {
    network: PacketNetwork<DcqcnEnds>,
}

impl PfcDcqcn {
    /// Creates the endpoints and the queues. `seed` determines which packets are marked.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(
        network: &Network,
        ethernet: &Ethernet,
        params: &Params,
        seed: u64,
    ) -> Result<PfcDcqcn, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let queues = plan.full_port() * u64::from(network.nodes());
        let rto = params.rto.unwrap_or(LEAST_RTO.max(plan.round_trip() + queues));
        if rto < plan.round_trip() {
            return Err(SetupError::new("fabric.rto", "is at least the round trip", rto));
        }
        if params.k_max < params.k_min {
            return Err(SetupError::new("fabric.k_max", "is at least fabric.k_min", params.k_max));
        }
        for (key, time) in
            [("fabric.alpha_timer", params.alpha_timer), ("fabric.increase_timer", params.increase_timer)]
        {
            if time == Time::ZERO {
                return Err(SetupError::new(key, "is above 0", time));
            }
        }
        let queue = Lossless::new(params.clone(), seed);
        let nodes = (0..network.nodes()).map(|_| Node::default()).collect();
        let line = network.host_rate();
        let ends = DcqcnEnds { params: params.clone(), rto, line, transfers: Vec::new(), nodes };
        Ok(PfcDcqcn { network: PacketNetwork::new(plan, ends, queue)? })
    }
}

impl Registered for PfcDcqcn {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "pfc-dcqcn",
        about: "links that pause, under senders that slow down when switches mark",
        splits: <DcqcnEnds as Transport>::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 220.0,
        port: 180.0,
        open: 420.0,
        packet: 0.4 * PACKET,
        overhead: Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<PfcDcqcn, SetupError> {
        let PfcDcqcn { network } = PfcDcqcn::new(site.network, site.ethernet, params, site.seed)?;
        Ok(PfcDcqcn { network: network.seeded(site.seed) })
    }

    fn split(parts: SplitRun, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<PfcDcqcn>(params)
    }

    fn never_acted(_params: &Params, run: &Run) -> Vec<Warning> {
        let marks = "senders of pfc-dcqcn kept their line rate: nothing was marked, because no queue was longer than `fabric.k_min`";
        let pauses = "pfc-dcqcn ran without priority flow control: no link was paused, because the buffers of switches had room";
        let marks = unless_acted(run, Mechanism::Mark, "marks", marks);
        marks.into_iter().chain(unless_acted(run, Mechanism::Pause, "pauses", pauses)).collect()
    }

    /// Returns the effect of eq. 1: each cut lowers the target rate too. Returns `None` if cuts keep the target rate.
    fn against_pacing(params: &Params) -> Option<&'static str> {
        (!params.keep_target).then_some(
            "each cut of DCQCN lowers the target rate too (eq. 1), which regains 40 Mb/s in 55 us; NICs can be set \
             to keep it: set `fabric.keep_target` (now false)",
        )
    }
}

struct DcqcnEnds {
    params: Params,
    rto: Time,
    line: unrack_units::Rate,
    transfers: Vec<DcqcnPair>,
    nodes: Vec<Node>,
}

struct DcqcnPair {
    sender: Sender,
    rate: DcqcnRate,
    /// Earliest time at which the rate allows the next packet.
    allowed_at: Time,
    /// Whether the flow is in `Node::ready`.
    ready: bool,
    receiver: Receiver,
    /// Earliest time at which the receiver may send the next congestion notification.
    notify_at: Time,
}

#[derive(Default)]
struct Node {
    /// Flows that have something to send, in order of the times at which they may send.
    ready: BTreeSet<(Time, u32, u32)>,
    /// Time of the next scheduled [`Allowed`].
    wakes_at: Option<Time>,
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    Segment(u32),
    Reply(Reply),
    Notification,
}

/// Timer event: a flow of this node may send now.
#[derive(Debug, Clone, Copy)]
pub struct Allowed(NodeId);

/// Rank of control packets, which are never paused.
const CONTROL: u32 = 0;
/// Rank of data packets, which may be paused.
const DATA: u32 = 1;

impl DcqcnEnds {
    /// Inserts a flow into the node's list of flows that can send, or removes it, according to the state of the sender.
    fn place<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let src = net.transfer(transfer).src;
        let pair = &mut self.transfers[transfer as usize];
        let ready = pair.sender.is_ready() && !pair.sender.is_done();
        if !ready {
            // The flow waits for a reply, or for its retransmission timeout.
            net.waits(transfer, || WaitReason::Nothing);
        }
        if ready == pair.ready {
            return;
        }
        pair.ready = ready;
        let place = (pair.allowed_at, net.transfer(transfer).name, transfer);
        let node = &mut self.nodes[src as usize];
        match ready {
            true => {
                node.ready.insert(place);
                let wait = if pair.allowed_at > net.now() { WaitReason::Pacing } else { WaitReason::Turn };
                net.waits(transfer, || wait);
                self.wake(net, src);
            }
            false => {
                node.ready.remove(&place);
            }
        }
    }

    /// Wakes the node now, or schedules a timer for the time at which its first flow may send.
    fn wake<O: Observer>(&mut self, net: &mut Net<Self, O>, src: NodeId) {
        let node = &mut self.nodes[src as usize];
        let Some(&(at, ..)) = node.ready.first() else { return };
        if at <= net.now() {
            net.wake(src);
        } else if node.wakes_at.is_none_or(|wakes| at < wakes) {
            node.wakes_at = Some(at);
            net.schedule(at, Allowed(src));
        }
    }

    fn take_reply<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, reply: Reply) {
        let sender = &mut self.transfers[transfer as usize].sender;
        if sender.is_done() {
            return;
        }
        sender.handle_reply(net.now(), reply);
        let done = sender.is_done();
        // The reply may have moved the deadline to an earlier time.
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.place(net, transfer);
        if done {
            net.close(transfer);
        }
    }

    fn answer<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>, header: Header) {
        let to = net.transfer(packet.transfer).src;
        net.send_first(packet.to, Packet::new(packet.transfer, to, net.bare(), CONTROL, header));
    }
}

impl Transport for DcqcnEnds {
    type Header = Header;
    type Timer = Allowed;
    type Queue = Lossless;
    const SPRAYS: bool = false;
    const SPLITS: bool = true;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let segments = net.transfer(transfer).segments;
        let pair = DcqcnPair {
            sender: Sender::new(segments, self.rto, net.now(), net.salt(transfer, TransferSide::Sender)),
            rate: DcqcnRate::new(self.line),
            allowed_at: net.now(),
            ready: false,
            receiver: Receiver::new(segments),
            notify_at: Time::ZERO,
        };
        packet::put(&mut self.transfers, transfer, pair);
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.place(net, transfer);
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        let now = net.now();
        let &(at, _, transfer) = self.nodes[node as usize].ready.first()?;
        if at > now {
            self.wake(net, node);
            return None;
        }
        self.nodes[node as usize].ready.pop_first();
        let pair = &mut self.transfers[transfer as usize];
        pair.ready = false;
        let (segment, again) = pair.sender.poll_transmit(now).expect("a flow that is ready has a segment");
        let size = net.segment(transfer, segment);
        pair.rate.handle_sent(&self.params, now, size.wire);
        pair.allowed_at = now + pair.rate.pace(size.wire);
        if again {
            net.retransmitted(transfer);
        }
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.place(net, transfer);
        let to = net.transfer(transfer).dst;
        Some(Packet::new(transfer, to, size, DATA, Header::Segment(segment)))
    }

    fn is_ready(&self, node: NodeId) -> bool {
        !self.nodes[node as usize].ready.is_empty()
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let (transfer, now) = (packet.transfer, net.now());
        let pair = &mut self.transfers[transfer as usize];
        match packet.header {
            Header::Reply(reply) => self.take_reply(net, transfer, reply),
            Header::Notification => pair.rate.handle_notification(&self.params, now),
            Header::Segment(number) => {
                let notifies = packet.marked && now >= pair.notify_at;
                if notifies {
                    pair.notify_at = now + self.params.notification_interval;
                }
                let before = pair.receiver.is_complete();
                let reply = pair.receiver.handle_segment(number);
                let complete = pair.receiver.is_complete() && !before;
                if notifies {
                    self.answer(net, packet, Header::Notification);
                }
                // A complete request gets no reply, because its answer acknowledges it.
                let silent = complete && !net.delivered(transfer);
                if let Some(reply) = reply.filter(|_| !silent) {
                    self.answer(net, packet, Header::Reply(reply));
                }
            }
        }
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        let wanted = net.transfer(request).segments;
        self.take_reply(net, request, Reply { wanted, lost: false });
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Segment(number) => (PacketKind::Data, Some(number)),
            Header::Reply(Reply { wanted, lost: true }) => (PacketKind::Nack, Some(wanted)),
            Header::Reply(Reply { wanted, .. }) => (PacketKind::Ack, Some(wanted)),
            Header::Notification => (PacketKind::Congestion, None),
        }
    }

    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, Allowed(node): Allowed) {
        let place = &mut self.nodes[node as usize];
        if place.wakes_at.is_some_and(|at| at <= net.now()) {
            place.wakes_at = None;
        }
        self.wake(net, node);
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| node.ready.is_empty())
    }

    fn deadline(&self, transfer: u32, _side: TransferSide) -> Option<Time> {
        self.transfers[transfer as usize].sender.poll_timeout()
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, _side: TransferSide) {
        let sender = &mut self.transfers[transfer as usize].sender;
        sender.handle_timeout(net.now());
        let gives_up = sender.has_given_up();
        self.place(net, transfer);
        if gives_up {
            net.give_up(transfer);
        }
    }
}

fabric_of_packets!(PfcDcqcn, Allowed, Header);
