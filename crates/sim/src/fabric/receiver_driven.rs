//! `phost`, `homa` and `ird`: receivers grant what senders send.
//!
//! [`Ends`] is the part that the three share; a [`ReceiverPolicy`] is what tells them apart. Grants and acknowledgements go
//! before all data.

use super::packet::{
    self, Net, Packet, PacketNetwork, Side, StrictPriority, Transfer, Transport, fabric_of_packets,
};
use super::stream::{Ethernet, StreamPlan};
use crate::memory::Cost;
use crate::registry::{NoParams, Parts, Registered, Site};
use crate::setup::Finished;
use unrack_engine::PacketSize;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, Wait};
use unrack_engine::network::Network;
use unrack_protocol::receiver_driven::{Expiry, GrantedSender, Grants, Scheduler};
use unrack_protocol::turns::{TurnIndex, Turns};
use unrack_protocol::{homa, ird, phost};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Message, NodeId};

/// Time at which a receiver learns of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced {
    /// The receiver knows as soon as the transfer is opened.
    AtOnce,
    /// A packet that is sent before all data announces the transfer.
    ByPacket,
    /// Any data announces the transfer: it says how much there is.
    ByData,
}

/// Rules in which the three differ.
pub trait ReceiverPolicy: Send {
    type Scheduler: Scheduler + Send;
    /// See [`Transport::SPLITS`].
    const SPLITS: bool;
    /// Most grants that a sender may have. The receiver whose grant is beyond that learns of it at once.
    const MOST_GRANTS: u32 = u32::MAX;
    /// Returns the rank of unasked segments to this receiver.
    fn unasked_rank(&self, receiver: &Self::Scheduler, segments: u32) -> u8;
    /// Counts a transfer of which the receiver learns.
    fn count(&self, _receiver: &mut Self::Scheduler, _segments: u32) {}
}

/// Endpoints of all transfers, and the receivers' schedulers.
struct Ends<P: ReceiverPolicy> {
    policy: P,
    announced: Announced,
    /// Segments of a transfer that need no grant.
    unasked: u32,
    expiry: Option<Expiry>,
    timeout: Time,
    transfers: Vec<Pair>,
    /// Transfers of each node that may send, the one with the fewest segments left first.
    ready: Vec<Turns>,
    /// Number of unused grants of each node.
    granted: Vec<u32>,
    receivers: Vec<Receiver<P::Scheduler>>,
}

struct Pair {
    source: GrantedSender,
    /// Number of grants of `source`, as counted in `Ends::granted`.
    granted: u32,
    place: TurnIndex,
    grants: Grants,
    /// The receiver knows of the transfer.
    known: bool,
    /// Time at which the receiver takes its grants as lost.
    deadline: Time,
}

struct Receiver<S> {
    scheduler: S,
    /// Time of the next scheduled [`Poll`].
    polled_at: Option<Time>,
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    /// Announces a transfer. `again`: the sender has heard nothing of it, and has sent all that it may.
    Announce {
        again: bool,
    },
    Segment(u32),
    Grant {
        segment: u32,
        rank: u8,
    },
    Done,
}

/// Timer: the scheduler of this node may have a grant.
#[derive(Debug, Clone, Copy)]
pub struct Poll(NodeId);

/// Rank of control packets: before all data.
const CONTROL: u32 = 0;

impl<P: ReceiverPolicy> Ends<P> {
    fn sendable<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let src = net.transfer(transfer).src;
        let Pair { source, granted, place, .. } = &mut self.transfers[transfer as usize];
        let before = std::mem::replace(granted, source.granted());
        self.granted[src as usize] = self.granted[src as usize] - before + *granted;
        let size = source.is_ready().then(|| source.unsent());
        self.ready[src as usize].set(transfer, place, size);
        self.tell_wait(net, transfer);
        if size.is_some() {
            net.wake(src);
        }
    }

    /// Reports what keeps a transfer from sending, as both of its ends know it.
    fn tell_wait<O: Observer>(&self, net: &mut Net<Self, O>, transfer: u32) {
        let (pair, dst) = (&self.transfers[transfer as usize], net.transfer(transfer).dst);
        if pair.source.is_done() {
            return;
        }
        net.waits(transfer, || match pair.source.is_ready() {
            true => Wait::Turn,
            false if pair.known && self.receivers[dst as usize].scheduler.could_grant(&pair.grants) => {
                Wait::GrantTurn
            }
            false => Wait::Grant,
        });
    }

    /// Tells the receiver of a transfer. `is_lost`: its unasked segments must be lost.
    fn announce<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, is_lost: bool) {
        let (dst, segments) = (net.transfer(transfer).dst, net.transfer(transfer).segments);
        // Held until it is over for its receiver.
        net.hold(transfer);
        let pair = &mut self.transfers[transfer as usize];
        let receiver = &mut self.receivers[dst as usize];
        pair.known = true;
        pair.deadline = net.now() + self.timeout;
        self.policy.count(&mut receiver.scheduler, segments);
        if is_lost {
            pair.grants.expire();
        }
        receiver.scheduler.update(transfer, &mut pair.grants);
        self.tell_wait(net, transfer);
        self.keep_alarm(net, transfer, Side::Receiver);
    }

    /// Sends the grants that a receiver may send now.
    fn grant<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) {
        loop {
            let transfers = &self.transfers;
            let outstanding = |transfer: u32| transfers[transfer as usize].grants.outstanding();
            let receiver = &mut self.receivers[node as usize];
            let turn = receiver.scheduler.poll(net.now(), outstanding);
            let Some((transfer, rank)) = turn else { break };
            let pair = &mut self.transfers[transfer as usize];
            let segment = pair.grants.grant().expect("a transfer whose turn it is has something to grant");
            let PacketSize { wire, .. } = net.segment(transfer, segment);
            let pace = net.plan().network.topology.host_link().pace.transmit(u64::from(wire));
            receiver.scheduler.granted(net.now(), pace);
            receiver.scheduler.update(transfer, &mut pair.grants);
            self.tell_wait(net, transfer);
            let to = net.transfer(transfer).src;
            let header = Header::Grant { segment, rank };
            net.send_first(node, Packet::new(transfer, to, net.bare(), CONTROL, header));
        }
        let receiver = &mut self.receivers[node as usize];
        let next = receiver.scheduler.next().filter(|at| *at > net.now());
        if let Some(at) = next
            && receiver.polled_at.is_none_or(|polled| at < polled)
        {
            receiver.polled_at = Some(at);
            net.schedule(at, Poll(node));
        }
    }

    fn segment<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>, number: u32) {
        let (transfer, node) = (packet.transfer, packet.to);
        let pair = &mut self.transfers[transfer as usize];
        if pair.grants.has_given_up() {
            return self.say_done(net, packet);
        }
        let new = pair.grants.arrive(number);
        let receiver = &mut self.receivers[node as usize];
        receiver.scheduler.update(transfer, &mut pair.grants);
        pair.deadline = net.now() + self.timeout;
        let complete = pair.grants.is_complete();
        self.tell_wait(net, transfer);
        if complete && new {
            net.release(transfer);
        }
        // A request is acknowledged by its answer.
        if complete && (!new || net.delivered(transfer)) {
            self.say_done(net, packet);
        }
        self.grant(net, node);
    }

    /// Takes back a grant whose sender has as many as it may.
    fn refuse<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, segment: u32) {
        let node = net.transfer(transfer).dst;
        let pair = &mut self.transfers[transfer as usize];
        pair.grants.give_back(segment);
        self.receivers[node as usize].scheduler.update(transfer, &mut pair.grants);
        self.tell_wait(net, transfer);
        self.grant(net, node);
    }

    fn say_done<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let to = net.transfer(packet.transfer).src;
        net.send_first(packet.to, Packet::new(packet.transfer, to, net.bare(), CONTROL, Header::Done));
    }

    fn done<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let source = &mut self.transfers[transfer as usize].source;
        if !source.is_done() {
            source.handle_done();
            self.sendable(net, transfer);
            net.close(transfer);
        }
    }
}

impl<P: ReceiverPolicy> Transport for Ends<P> {
    type Header = Header;
    type Timer = Poll;
    type Queue = StrictPriority;
    const SPRAYS: bool = true;
    const SPLITS: bool = P::SPLITS;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let Transfer { segments, name, .. } = *net.transfer(transfer);
        let source = GrantedSender::new(segments, self.unasked, self.expiry, self.timeout, net.now());
        let (place, grants) = (TurnIndex::new(name), Grants::new(segments, self.unasked, name));
        let pair = Pair { source, granted: 0, place, grants, known: false, deadline: Time::MAX };
        packet::put(&mut self.transfers, transfer, pair);
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let (src, dst) = (net.transfer(transfer).src, net.transfer(transfer).dst);
        match self.announced {
            Announced::AtOnce => {
                self.announce(net, transfer, false);
                self.grant(net, dst);
            }
            Announced::ByPacket => {
                let header = Header::Announce { again: false };
                net.send_first(src, Packet::new(transfer, dst, net.bare(), CONTROL, header));
            }
            Announced::ByData => {}
        }
        self.keep_alarm(net, transfer, Side::Sender);
        self.sendable(net, transfer);
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        loop {
            let transfer = self.ready[node as usize].first()?;
            let sent = self.transfers[transfer as usize].source.poll_transmit(net.now());
            self.sendable(net, transfer);
            let Some(sent) = sent else { continue };
            if sent.again {
                net.retransmitted(transfer);
            }
            let (to, segments) = (net.transfer(transfer).dst, net.transfer(transfer).segments);
            let receiver = &self.receivers[to as usize].scheduler;
            let rank = sent.rank.unwrap_or_else(|| self.policy.unasked_rank(receiver, segments));
            let size = net.segment(transfer, sent.segment);
            return Some(Packet::new(transfer, to, size, u32::from(rank), Header::Segment(sent.segment)));
        }
    }

    fn is_ready(&self, node: NodeId) -> bool {
        !self.ready[node as usize].is_empty()
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let transfer = packet.transfer;
        let pair = &mut self.transfers[transfer as usize];
        match packet.header {
            Header::Announce { .. } | Header::Segment(_) if !pair.known => {
                // Homa §3.7: a receiver that is asked about an unknown transfer takes all of it as lost, and asks for
                // its first packets at once.
                let is_lost = matches!(packet.header, Header::Announce { again: true });
                self.announce(net, transfer, is_lost);
                if let Header::Segment(number) = packet.header {
                    return self.segment(net, packet, number);
                }
                self.grant(net, packet.to);
            }
            Header::Announce { .. } if pair.grants.is_over() => self.say_done(net, packet),
            Header::Announce { .. } if pair.grants.is_silent() => {
                // The sender is there: the receiver need not wait until its grants are taken as lost.
                pair.grants.expire();
                self.receivers[packet.to as usize].scheduler.update(transfer, &mut pair.grants);
                self.tell_wait(net, transfer);
                self.grant(net, packet.to);
            }
            Header::Announce { .. } => {}
            Header::Segment(number) => self.segment(net, packet, number),
            Header::Grant { segment, .. } if self.granted[packet.to as usize] >= P::MOST_GRANTS => {
                self.refuse(net, transfer, segment);
            }
            Header::Grant { segment, rank } => {
                pair.source.handle_grant(net.now(), segment, rank);
                // The timeout may have been doubled.
                self.keep_alarm(net, transfer, Side::Sender);
                self.sendable(net, transfer);
            }
            Header::Done => self.done(net, transfer),
        }
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        self.done(net, request);
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Announce { .. } => (PacketKind::Notification, None),
            Header::Segment(number) => (PacketKind::Data, Some(number)),
            Header::Grant { segment, .. } => (PacketKind::Grant, Some(segment)),
            Header::Done => (PacketKind::Ack, None),
        }
    }

    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, Poll(node): Poll) {
        let receiver = &mut self.receivers[node as usize];
        if receiver.polled_at == Some(net.now()) {
            receiver.polled_at = None;
            self.grant(net, node);
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let idle = |receiver: &Receiver<P::Scheduler>| receiver.scheduler.poll(Time::MAX, |_| 0).is_none();
        self.ready.iter().all(Turns::is_empty)
            && self.granted.iter().all(|granted| *granted == 0)
            && self.receivers.iter().all(idle)
    }

    fn deadline(&self, transfer: u32, side: Side) -> Option<Time> {
        let pair = &self.transfers[transfer as usize];
        match side {
            Side::Sender => pair.source.poll_timeout(),
            Side::Receiver => (!pair.grants.is_over()).then_some(pair.deadline),
        }
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, side: Side) {
        let (src, dst, now) = (net.transfer(transfer).src, net.transfer(transfer).dst, net.now());
        let pair = &mut self.transfers[transfer as usize];
        match side {
            Side::Sender => {
                if pair.source.handle_timeout(now) {
                    let header = Header::Announce { again: true };
                    net.send_first(src, Packet::new(transfer, dst, net.bare(), CONTROL, header));
                } else if pair.source.has_given_up() {
                    self.sendable(net, transfer);
                    net.give_up(transfer);
                }
            }
            Side::Receiver => {
                let receiver = &mut self.receivers[dst as usize];
                pair.grants.handle_timeout(self.timeout);
                receiver.scheduler.update(transfer, &mut pair.grants);
                pair.deadline = now + pair.grants.timeout(self.timeout);
                let gives_up = pair.grants.has_given_up();
                self.tell_wait(net, transfer);
                if gives_up {
                    net.give_up_receiving(transfer);
                }
                self.grant(net, dst);
            }
        }
    }

    fn unloaded(&self, plan: &StreamPlan, message: &Message) -> Time {
        let bare = plan.framing.wire(0).get();
        // A lone transfer waits this long before its first data.
        packet::alone::<Self>(plan, message, None, |src, dst| match self.announced {
            Announced::AtOnce => plan.alone(dst, src).packet(bare),
            Announced::ByPacket => plan.network.topology.host_link().pace.transmit(bare),
            Announced::ByData => Time::ZERO,
        })
    }
}

/// Network under one of the three.
pub struct ReceiverDriven<P: ReceiverPolicy> {
    network: PacketNetwork<Ends<P>>,
}

impl<P: ReceiverPolicy> ReceiverDriven<P> {
    fn new(plan: StreamPlan, ends: Ends<P>) -> Result<Self, SetupError> {
        Ok(ReceiverDriven { network: PacketNetwork::new(plan, ends, StrictPriority::default())? })
    }
}

fabric_of_packets!(ReceiverDriven<P: ReceiverPolicy>, Poll, Header);

/// Creates the endpoints of one of the three. `unasked` is in packets.
fn ends<P: ReceiverPolicy>(
    policy: P,
    nodes: u32,
    (announced, unasked): (Announced, u32),
    (expiry, timeout): (Option<Expiry>, Time),
    scheduler: impl Fn() -> P::Scheduler,
) -> Ends<P> {
    let receiver = |_| Receiver { scheduler: scheduler(), polled_at: None };
    let (ready, granted) = (vec![Turns::default(); nodes as usize], vec![0; nodes as usize]);
    let (transfers, receivers) = (Vec::new(), (0..nodes).map(receiver).collect());
    Ends { policy, announced, unasked, expiry, timeout, transfers, ready, granted, receivers }
}

/// pHost (Gao et al., CoNEXT 2015).
pub type Phost = ReceiverDriven<PhostPolicy>;
/// Policy of pHost.
pub struct PhostPolicy {
    free_tokens: u32,
}

impl ReceiverPolicy for PhostPolicy {
    type Scheduler = phost::Tokens;
    const SPLITS: bool = true;
    fn unasked_rank(&self, _receiver: &phost::Tokens, segments: u32) -> u8 {
        phost::free_rank(segments, self.free_tokens)
    }
}

impl Phost {
    /// Creates pHost on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn with(network: &Network, ethernet: &Ethernet, params: &phost::Params) -> Result<Phost, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let free_tokens = plan.line_rate_window("fabric.free_tokens", params.free_tokens)?;
        let packet = network.topology.host_link().pace.transmit(plan.full_packet().get());
        let after = params.token_expiry.unwrap_or(Time::from_ps(packet.as_ps() * 3 / 2));
        let expiry = Expiry { after, pace: packet };
        let timeout = at_least_a_round_trip("fabric.timeout", params.timeout, &plan)?;
        let how = (Announced::ByPacket, free_tokens);
        let (nodes, policy) = (network.nodes(), PhostPolicy { free_tokens });
        let ends = ends(policy, nodes, how, (Some(expiry), timeout), || phost::Tokens::new(free_tokens));
        ReceiverDriven::new(plan, ends)
    }
}

impl Registered for Phost {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "phost",
        about: "receivers grant tokens for what senders send; short transfers need none",
        splits: PhostPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 400.0, open: 500.0, overhead: 2.0 * Cost::ETHERNET, ..Cost::NONE };
    type Params = phost::Params;

    fn build(site: &Site, params: &phost::Params) -> Result<Phost, SetupError> {
        Phost::with(site.network, site.ethernet, params)
    }

    fn split(parts: Parts, params: &phost::Params) -> Result<Finished, SetupError> {
        parts.run::<Phost>(params)
    }
}

/// Homa (Montazeri et al., SIGCOMM 2018).
pub type Homa = ReceiverDriven<HomaPolicy>;
/// Policy of Homa.
pub struct HomaPolicy;

impl ReceiverPolicy for HomaPolicy {
    type Scheduler = homa::Overcommitment;
    /// Always false: senders know at once which ranks their receivers have chosen.
    const SPLITS: bool = false;
    fn unasked_rank(&self, receiver: &homa::Overcommitment, segments: u32) -> u8 {
        receiver.unasked_rank(segments)
    }
    fn count(&self, receiver: &mut homa::Overcommitment, segments: u32) {
        receiver.count(segments);
    }
}

impl Homa {
    /// Creates Homa on a network.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn with(network: &Network, ethernet: &Ethernet, params: &homa::Params) -> Result<Homa, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let window = plan.line_rate_window("fabric.unscheduled", params.unscheduled)?;
        let timeout = at_least_a_round_trip("fabric.resend", Some(params.resend), &plan)?;
        let (how, nodes) = ((Announced::ByData, window), network.nodes());
        let ends = ends(HomaPolicy, nodes, how, (None, timeout), || homa::Overcommitment::new(window));
        ReceiverDriven::new(plan, ends)
    }
}

impl Registered for Homa {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "homa",
        about: "receivers grant to several senders at once, at priorities of their own",
        splits: HomaPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 400.0, open: 420.0, overhead: Cost::ETHERNET, ..Cost::NONE };
    type Params = homa::Params;

    fn build(site: &Site, params: &homa::Params) -> Result<Homa, SetupError> {
        Homa::with(site.network, site.ethernet, params)
    }
}

/// Idealized receiver-driven transport of EDM §4.3.
pub type Ird = ReceiverDriven<IrdPolicy>;
/// Policy of the idealized transport.
pub struct IrdPolicy;

impl ReceiverPolicy for IrdPolicy {
    type Scheduler = ird::Credits;
    /// Always false: receivers know at once what senders have.
    const SPLITS: bool = false;
    const MOST_GRANTS: u32 = ird::MOST_CREDITS;
    fn unasked_rank(&self, _receiver: &ird::Credits, _segments: u32) -> u8 {
        unreachable!("all of it is granted")
    }
}

/// Least timeout of `ird`. No packet is lost where credits come at the rate of the link; where the core is narrower,
/// some may be.
const IRD_TIMEOUT: Time = Time::from_us(1_000);

impl Ird {
    /// Creates the idealized transport on a network.
    ///
    /// # Errors
    /// If a parameter of the network is out of range.
    pub fn with(network: &Network, ethernet: &Ethernet) -> Result<Ird, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        let timeout = IRD_TIMEOUT.max(plan.patience());
        let (how, nodes) = ((Announced::AtOnce, 0), network.nodes());
        let ends = ends(IrdPolicy, nodes, how, (None, timeout), ird::Credits::default);
        ReceiverDriven::new(plan, ends)
    }
}

impl Registered for Ird {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "ird",
        about: "idealized receiver-driven transport: receivers learn of everything at once (EDM §4.3)",
        splits: IrdPolicy::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 400.0, open: 460.0, overhead: 2.0 * Cost::ETHERNET, ..Cost::NONE };
    type Params = NoParams;

    fn build(site: &Site, _params: &NoParams) -> Result<Ird, SetupError> {
        Ird::with(site.network, site.ethernet)
    }
}

/// Returns the timeout `asked` for, or [`StreamPlan::patience`].
///
/// # Errors
/// If it is less than the round trip.
fn at_least_a_round_trip(
    key: &'static str,
    asked: Option<Time>,
    plan: &StreamPlan,
) -> Result<Time, SetupError> {
    let round_trip = plan.round_trip();
    match asked {
        Some(asked) if asked < round_trip => Err(SetupError::new(key, "is at least the round trip", asked)),
        Some(asked) => Ok(asked),
        None => Ok(plan.patience()),
    }
}
