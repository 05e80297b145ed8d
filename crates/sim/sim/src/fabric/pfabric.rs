//! `pfabric`: switches send the packet whose transfer has the fewest packets left first (Alizadeh et al., SIGCOMM 2013).
//!
//! Nodes order the packets of their transfers in the same way. Acknowledgements are sent before all data.

use super::packet::{
    self, Net, Packet, PacketNetwork, SmallestFirst, Transfer, TransferSide, Transport, fabric_of_packets,
};
use super::stream::StreamPlan;
use crate::contract::{Registered, SplitRun};
use crate::cost::{Cost, PACKET};
use crate::job::Finished;
use crate::site::{Ethernet, FabricSite};
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_protocol::pfabric::{Acknowledged, OutgoingPacket, Params, Receiver, Sender};
use unrack_protocol::turns::{TurnIndex, Turns};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::NodeId;

/// pFabric on a network.
pub struct Pfabric {
    network: PacketNetwork<PfabricEnds>,
}

impl Pfabric {
    /// Creates the endpoints and the queues.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Pfabric, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let round_trip = plan.round_trip();
        let window = plan.line_rate_window("fabric.initial_window", params.initial_window)?;
        let rto = params.rto.unwrap_or(plan.patience());
        if rto < round_trip {
            return Err(SetupError::new("fabric.rto", "is at least the round trip", rto));
        }
        let ready = vec![Turns::default(); network.nodes() as usize];
        let ends = PfabricEnds { window, rto, transfers: Vec::new(), ready };
        Ok(Pfabric { network: PacketNetwork::new(plan, ends, SmallestFirst::default())? })
    }
}

impl Registered for Pfabric {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "pfabric",
        about: "switches send the packet whose transfer has the least left first, and drop the one with the most",
        splits: <PfabricEnds as Transport>::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 160.0,
        port: 85.0,
        open: 200.0,
        segment: 3.0 * Cost::BIT,
        packet: 0.85 * PACKET,
        overhead: Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Pfabric, SetupError> {
        let Pfabric { network } = Pfabric::new(site.network, site.ethernet, params)?;
        Ok(Pfabric { network: network.seeded(site.seed) })
    }

    fn split(parts: SplitRun, params: &Params) -> Result<Finished, SetupError> {
        parts.run::<Pfabric>(params)
    }
}

/// Endpoints of all transfers.
struct PfabricEnds {
    window: u32,
    rto: Time,
    transfers: Vec<PfabricPair>,
    /// For each node, the transfers that may send, ordered by the number of packets left.
    ready: Vec<Turns>,
}

struct PfabricPair {
    sender: Sender,
    receiver: Receiver,
    place: TurnIndex,
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    Segment(u32),
    Probe,
    Ack(Acknowledged),
}

/// Rank of acknowledgements, which are sent before all data.
const FIRST: u32 = 0;

impl PfabricEnds {
    /// Inserts the transfer into its node's list of transfers that may send, moves it in the list, or removes it.
    fn rank<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let src = net.transfer(transfer).src;
        let pair = &mut self.transfers[transfer as usize];
        let rank = pair.sender.is_ready().then(|| pair.sender.remaining());
        if !self.ready[src as usize].set(transfer, &mut pair.place, rank) {
            return;
        }
        net.waits(transfer, || if rank.is_some() { WaitReason::Turn } else { WaitReason::Window });
        if rank.is_some() {
            net.wake(src);
        }
    }

    fn acknowledged<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, what: Acknowledged) {
        let sender = &mut self.transfers[transfer as usize].sender;
        if sender.is_done() {
            return;
        }
        sender.handle_ack(net.now(), what);
        let done = sender.is_done();
        // The acknowledgement may have moved the deadline to an earlier time.
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.rank(net, transfer);
        if done {
            net.close(transfer);
        }
    }
}

impl Transport for PfabricEnds {
    type Header = Header;
    type Timer = ();
    type Queue = SmallestFirst;
    const SPRAYS: bool = false;
    const SPLITS: bool = true;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let Transfer { segments, name, .. } = *net.transfer(transfer);
        let salt = net.salt(transfer, TransferSide::Sender);
        let sender = Sender::new(segments, self.window, self.rto, salt);
        let pair = PfabricPair { sender, receiver: Receiver::new(segments), place: TurnIndex::new(name) };
        packet::put(&mut self.transfers, transfer, pair);
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        self.rank(net, transfer);
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        let transfer = self.ready[node as usize].first()?;
        let sender = &mut self.transfers[transfer as usize].sender;
        let rank = sender.remaining();
        let sent = sender.poll_transmit(net.now())?;
        self.keep_alarm(net, transfer, TransferSide::Sender);
        self.rank(net, transfer);
        let to = net.transfer(transfer).dst;
        Some(match sent {
            OutgoingPacket::Segment { number, again } => {
                if again {
                    net.retransmitted(transfer);
                }
                Packet::new(transfer, to, net.segment(transfer, number), rank, Header::Segment(number))
            }
            OutgoingPacket::Probe => Packet::new(transfer, to, net.bare(), rank, Header::Probe),
        })
    }

    fn is_ready(&self, node: NodeId) -> bool {
        !self.ready[node as usize].is_empty()
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let transfer = packet.transfer;
        let receiver = &mut self.transfers[transfer as usize].receiver;
        let what = match packet.header {
            Header::Ack(what) => return self.acknowledged(net, transfer, what),
            Header::Probe => Acknowledged::Probe,
            Header::Segment(number) => {
                let last = receiver.handle_segment(number);
                // A complete request gets no acknowledgement, because its answer acknowledges it.
                if last && !net.delivered(transfer) {
                    return;
                }
                Acknowledged::Segment(number)
            }
        };
        let what =
            if self.transfers[transfer as usize].receiver.is_complete() { Acknowledged::All } else { what };
        let (from, to) = (packet.to, net.transfer(transfer).src);
        net.send_first(from, Packet::new(transfer, to, net.bare(), FIRST, Header::Ack(what)));
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        self.acknowledged(net, request, Acknowledged::All);
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Segment(number) => (PacketKind::Data, Some(number)),
            Header::Probe => (PacketKind::Notification, None),
            Header::Ack(Acknowledged::Segment(number)) => (PacketKind::Ack, Some(number)),
            Header::Ack(_) => (PacketKind::Ack, None),
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.ready.iter().all(Turns::is_empty)
    }

    fn deadline(&self, transfer: u32, _side: TransferSide) -> Option<Time> {
        self.transfers[transfer as usize].sender.poll_timeout()
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, _side: TransferSide) {
        let sender = &mut self.transfers[transfer as usize].sender;
        sender.handle_timeout(net.now());
        let gives_up = sender.has_given_up();
        self.rank(net, transfer);
        if gives_up {
            net.give_up(transfer);
        }
    }
}

fabric_of_packets!(Pfabric, (), Header);
