//! The transport on a simulated network: packets, queues, routes, faults and counters are the network's business.

use crate::go_back::Sender;
use std::collections::BTreeSet;
use unrack_rack::{Profile, Protocol};
use unrack_sim::cost::Cost;
use unrack_sim::fabric::packet::{
    Net, Packet, PacketNetwork, StreamPlan, StrictPriority, TransferSide, Transport,
};
use unrack_sim::{FabricSite, Observer, PacketKind, Registered, SetupError};
use unrack_units::Time;
use unrack_workload::NodeId;

/// Go-back-N on a network.
pub struct GoBackN {
    network: PacketNetwork<Ends>,
}

/// Parameters; their comments are what `unrack scenario explain` prints.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets under way without acknowledgement. Default: the bandwidth-delay product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
}

impl Registered for GoBackN {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "go-back-n",
        about: "a window that never changes; after a loss, all behind it is sent again",
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 400.0, open: 400.0, overhead: Cost::ETHERNET, ..Cost::NONE };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<GoBackN, SetupError> {
        let plan = StreamPlan::at_line_rate(site.network, site.ethernet)?;
        let window = plan.line_rate_window("fabric.window", params.window)?;
        let turns = vec![BTreeSet::new(); site.network.nodes() as usize];
        let ends = Ends { window, timeout: plan.patience(), transfers: Vec::new(), turns };
        Ok(GoBackN { network: PacketNetwork::new(plan, ends, StrictPriority::default())? })
    }
}

unrack_sim::packet_fabric!(GoBackN, (), Header);

/// Both ends of all transfers.
struct Ends {
    window: u32,
    timeout: Time,
    transfers: Vec<Pair>,
    /// Transfers of each node that may send; the one of the lowest number goes first.
    turns: Vec<BTreeSet<u32>>,
}

struct Pair {
    sender: Sender,
    /// Segments that have arrived in order.
    arrived: u32,
}

/// Contents of a packet for its receiver.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    Segment(u32),
    /// Number of segments that have arrived in order.
    Ack(u32),
}

/// Classes of the switches' queues.
const ACKS: u32 = 0;
const DATA: u32 = 1;

impl Ends {
    /// Lets a transfer take its turn at its node if it may send, and no longer if it may not.
    fn sort<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let node = net.transfer(transfer).src;
        if self.transfers[transfer as usize].sender.is_ready() {
            self.turns[node as usize].insert(transfer);
            net.wake(node);
        } else {
            self.turns[node as usize].remove(&transfer);
        }
    }

    fn acknowledged<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, arrived: u32) {
        let sender = &mut self.transfers[transfer as usize].sender;
        if sender.is_done() {
            return;
        }
        sender.handle_ack(net.now(), arrived);
        let is_done = sender.is_done();
        self.sort(net, transfer);
        if is_done {
            net.close(transfer);
        }
    }
}

impl Transport for Ends {
    type Header = Header;
    type Timer = ();
    type Queue = StrictPriority;
    const SPRAYS: bool = false;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let sender = Sender::new(net.transfer(transfer).segments, self.window, self.timeout);
        let pair = Pair { sender, arrived: 0 };
        match self.transfers.get_mut(transfer as usize) {
            Some(over) => *over = pair,
            None => self.transfers.push(pair),
        }
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        self.sort(net, transfer);
    }

    fn is_ready(&self, node: NodeId) -> bool {
        !self.turns[node as usize].is_empty()
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        let transfer = *self.turns[node as usize].first()?;
        let (segment, again) = self.transfers[transfer as usize].sender.poll_transmit(net.now())?;
        if again {
            net.retransmitted(transfer);
        }
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.sort(net, transfer);
        let to = net.transfer(transfer).dst;
        Some(Packet::new(transfer, to, net.segment(transfer, segment), DATA, Header::Segment(segment)))
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let transfer = packet.transfer;
        let segment = match packet.header {
            Header::Ack(arrived) => return self.acknowledged(net, transfer, arrived),
            Header::Segment(segment) => segment,
        };
        let (segments, to) = (net.transfer(transfer).segments, net.transfer(transfer).src);
        let pair = &mut self.transfers[transfer as usize];
        if segment == pair.arrived {
            pair.arrived += 1;
            // A request is acknowledged by its answer.
            if pair.arrived == segments && !net.delivered(transfer) {
                return;
            }
        }
        let ack = Header::Ack(self.transfers[transfer as usize].arrived);
        net.send_first(packet.to, Packet::new(transfer, to, net.bare(), ACKS, ack));
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        self.acknowledged(net, request, net.transfer(request).segments);
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Segment(segment) => (PacketKind::Data, Some(segment)),
            Header::Ack(_) => (PacketKind::Ack, None),
        }
    }

    fn deadline(&self, transfer: u32, side: TransferSide) -> Option<Time> {
        let sender = &self.transfers[transfer as usize].sender;
        (side == TransferSide::Sender).then(|| sender.poll_timeout()).flatten()
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, _side: TransferSide) {
        let sender = &mut self.transfers[transfer as usize].sender;
        sender.handle_timeout();
        let gives_up = sender.has_given_up();
        self.sort(net, transfer);
        if gives_up {
            net.give_up(transfer);
        }
    }
}
