//! `phost`, `homa` and `ird`: receivers grant what senders send.
//!
//! [`Ends`] is the part that the three share; a [`ReceiverPolicy`] is what tells them apart. Grants and acknowledgements go
//! before all data.

use super::packet::{
    self, Net, Packet, PacketNetwork, Side, StrictPriority, Transfer, Transport, fabric_of_packets,
};
use super::stream::{Ethernet, StreamPlan};
use crate::memory::Cost;
use crate::registry::{AssumedBuffer, NoParams, Parts, Registered, Site};
use crate::setup::Finished;
use unrack_engine::PacketSize;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, Wait};
use unrack_engine::network::Network;
use unrack_protocol::receiver_driven::{Expiry, GrantedSender, Grants, Scheduler};
use unrack_protocol::turns::{TurnIndex, Turns};
use unrack_protocol::{homa, ird, phost};
use unrack_rack::{Profile, Protocol};
use unrack_units::{Bytes, Time};
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
    /// Returns the receivers' view of all senders, if they have one.
    fn senders(&mut self) -> Option<&mut ird::Senders> {
        None
    }
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
    /// Time without an arrival after which a receiver takes its grants as lost.
    timeout: Time,
    /// The same while segments without a grant are awaited, and time after which a sender that hears nothing announces
    /// its transfer again. Senders do not know of each other's such segments, which may fill a port; granted ones
    /// come at the rate of the link.
    patience: Time,
    transfers: Vec<Pair>,
    /// Transfers of each node that may send, the one with the fewest segments left first.
    ready: Vec<Turns>,
    receivers: Vec<Receiver<P::Scheduler>>,
    /// Time on a receiver's link of the packets that may be outstanding, where receivers have a view of senders.
    most_outstanding: Time,
    /// Scratch space of [`Ends::grant`]: senders without room, and the sizes of their transfers.
    full: Vec<(NodeId, u32)>,
}

struct Pair {
    source: GrantedSender,
    place: TurnIndex,
    grants: Grants,
    /// Time of its first segment on a node's link.
    pace: Time,
    /// Credits issued and not used, as counted in the view of senders.
    unused: u32,
    /// Segments outstanding, as counted in [`Receiver::outstanding`].
    outstanding: u32,
    /// The receiver knows of the transfer.
    known: bool,
    /// Time at which the receiver takes its grants as lost.
    deadline: Time,
}

struct Receiver<S> {
    scheduler: S,
    /// Time of the next scheduled [`Poll`].
    polled_at: Option<Time>,
    /// Time on the receiver's link of all outstanding packets, where receivers have a view of senders.
    outstanding: Time,
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
        let Pair { source, place, .. } = &mut self.transfers[transfer as usize];
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
        pair.known = true;
        pair.deadline = net.now() + self.patience;
        self.policy.count(&mut self.receivers[dst as usize].scheduler, segments);
        if is_lost {
            pair.grants.expire();
        }
        self.update(transfer, dst);
        self.tell_wait(net, transfer);
        self.keep_alarm(net, transfer, Side::Receiver);
    }

    /// Tells a receiver's scheduler that a transfer has changed.
    fn update(&mut self, transfer: u32, dst: NodeId) {
        let pair = &mut self.transfers[transfer as usize];
        let receiver = &mut self.receivers[dst as usize];
        receiver.scheduler.update(transfer, &mut pair.grants);
        if self.policy.senders().is_some() {
            let before = std::mem::replace(&mut pair.outstanding, pair.grants.outstanding());
            receiver.outstanding += pair.pace * u64::from(pair.outstanding);
            receiver.outstanding = receiver.outstanding - pair.pace * u64::from(before);
        }
    }

    /// Handles the loss of all outstanding grants of a transfer, but for those that its sender has.
    fn expired<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let dst = net.transfer(transfer).dst;
        self.update(transfer, dst);
        let Pair { source, unused, .. } = &self.transfers[transfer as usize];
        let left = source.granted().min(*unused);
        self.forget_credits(net, transfer, left);
    }

    /// Counts all but `left` credits of a transfer as used, and lets receivers that wait for its sender grant.
    fn forget_credits<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, left: u32) {
        let src = net.transfer(transfer).src;
        let Pair { unused, pace, .. } = &mut self.transfers[transfer as usize];
        let (before, pace) = (std::mem::replace(unused, left), *pace);
        let Some(senders) = self.policy.senders().filter(|_| before > left) else { return };
        senders.settle(src, pace * u64::from(before - left));
        for (size, receiver) in senders.take_waiting(src) {
            match self.policy.senders() {
                Some(senders) if !senders.has_room(src, pace) => senders.wait(src, size, receiver),
                _ => self.grant(net, receiver),
            }
        }
    }

    /// Returns the transfer to grant now, and the rank of the segment. A receiver that finds no sender with room waits
    /// for all that it found.
    fn turn<O: Observer>(&mut self, net: &Net<Self, O>, node: NodeId) -> Option<(u32, u8)> {
        let Ends { policy, transfers, receivers, full, .. } = self;
        let receiver = &receivers[node as usize];
        if receiver.outstanding >= self.most_outstanding {
            return None;
        }
        full.clear();
        let mut senders = policy.senders();
        let outstanding = |transfer: u32| transfers[transfer as usize].grants.outstanding();
        let has_room = |transfer: u32| {
            let (src, pair) = (net.transfer(transfer).src, &transfers[transfer as usize]);
            let has_room = senders.as_ref().is_none_or(|senders| senders.has_room(src, pair.pace));
            if !has_room {
                full.push((src, pair.grants.remaining()));
            }
            has_room
        };
        let turn = receiver.scheduler.poll(net.now(), outstanding, has_room);
        if let (None, Some(senders)) = (turn, &mut senders) {
            full.iter().for_each(|(src, size)| senders.wait(*src, *size, node));
        }
        turn
    }

    /// Sends the grants that a receiver may send now.
    fn grant<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) {
        while let Some((transfer, rank)) = self.turn(net, node) {
            let pair = &mut self.transfers[transfer as usize];
            let segment = pair.grants.grant().expect("a transfer whose turn it is has something to grant");
            let to = net.transfer(transfer).src;
            if let Some(senders) = self.policy.senders() {
                senders.issue(to, pair.pace);
                pair.unused += 1;
            }
            let pace = pace(net, transfer, segment);
            self.receivers[node as usize].scheduler.granted(net.now(), pace);
            self.update(transfer, node);
            self.tell_wait(net, transfer);
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
        let wait = if pair.grants.awaits_unasked() { self.patience } else { self.timeout };
        let before = std::mem::replace(&mut pair.deadline, net.now() + wait);
        let (complete, is_sooner) = (pair.grants.is_complete(), pair.deadline < before);
        self.update(transfer, node);
        if is_sooner {
            self.keep_alarm(net, transfer, Side::Receiver);
        }
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

    fn say_done<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let to = net.transfer(packet.transfer).src;
        net.send_first(packet.to, Packet::new(packet.transfer, to, net.bare(), CONTROL, Header::Done));
    }

    fn done<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let source = &mut self.transfers[transfer as usize].source;
        if !source.is_done() {
            source.handle_done();
            self.sendable(net, transfer);
            self.forget_credits(net, transfer, 0);
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
        let source = GrantedSender::new(segments, self.unasked, self.expiry, self.patience, net.now());
        let (place, grants) = (TurnIndex::new(name), Grants::new(segments, self.unasked, name));
        let pace = pace(net, transfer, 0);
        let (known, deadline, unused, outstanding) = (false, Time::MAX, 0, 0);
        let pair = Pair { source, place, grants, pace, unused, outstanding, known, deadline };
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
            let unused = self.transfers[transfer as usize].unused;
            self.forget_credits(net, transfer, unused.saturating_sub(1));
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
                self.expired(net, transfer);
                self.tell_wait(net, transfer);
                self.grant(net, packet.to);
            }
            Header::Announce { .. } => {}
            Header::Segment(number) => self.segment(net, packet, number),
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
        let idle = |receiver: &Receiver<P::Scheduler>| {
            receiver.scheduler.poll(Time::MAX, |_| 0, |_| true).is_none()
                && receiver.outstanding == Time::ZERO
        };
        self.ready.iter().all(Turns::is_empty)
            && self.transfers.iter().all(|pair| pair.unused == 0)
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
                    self.forget_credits(net, transfer, 0);
                    net.give_up(transfer);
                }
            }
            Side::Receiver => {
                pair.grants.handle_timeout(self.timeout);
                pair.deadline = now + pair.grants.timeout(self.timeout);
                let gives_up = pair.grants.has_given_up();
                self.expired(net, transfer);
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
    let receiver = |_| Receiver { scheduler: scheduler(), polled_at: None, outstanding: Time::ZERO };
    let ready = vec![Turns::default(); nodes as usize];
    let (transfers, receivers) = (Vec::new(), (0..nodes).map(receiver).collect());
    let (most_outstanding, full) = (Time::MAX, Vec::new());
    Ends {
        policy,
        announced,
        unasked,
        expiry,
        timeout,
        patience: timeout,
        transfers,
        ready,
        receivers,
        most_outstanding,
        full,
    }
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
        let asked = params.timeout.unwrap_or(plan.round_trip() * 3);
        let timeout = at_least_a_round_trip("fabric.timeout", asked, &plan)?;
        let patience = params.timeout.unwrap_or(plan.patience());
        let how = (Announced::ByPacket, free_tokens);
        let (nodes, policy) = (network.nodes(), PhostPolicy { free_tokens });
        let scheduler = || phost::Tokens::new(free_tokens);
        let ends = ends(policy, nodes, how, (Some(expiry), timeout), scheduler);
        ReceiverDriven::new(plan, Ends { patience, ..ends })
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
        let timeout = at_least_a_round_trip("fabric.resend", params.resend, &plan)?;
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

    /// Returns a window for each priority: a receiver grants as many at once (§3.5), less those of unscheduled packets.
    fn assumed_buffer(site: &Site, params: &homa::Params) -> Option<AssumedBuffer> {
        let plan = StreamPlan::at_line_rate(site.network, site.ethernet).ok()?;
        let window = plan.line_rate_window("fabric.unscheduled", params.unscheduled).ok()?;
        let bytes = plan.full_packet().get() * u64::from(window) * u64::from(homa::RANKS);
        let holds = "RTTbytes for each of seven priorities, Homa §3.5";
        Some(AssumedBuffer { bytes: Bytes::new(bytes), holds })
    }
}

/// Idealized receiver-driven transport of EDM §4.3.
pub type Ird = ReceiverDriven<IrdPolicy>;
/// Policy of the idealized transport.
pub struct IrdPolicy {
    senders: ird::Senders,
}

impl ReceiverPolicy for IrdPolicy {
    type Scheduler = ird::Credits;
    /// Always false: receivers know at once what senders have.
    const SPLITS: bool = false;
    fn unasked_rank(&self, _receiver: &ird::Credits, _segments: u32) -> u8 {
        unreachable!("all of it is granted")
    }
    fn senders(&mut self) -> Option<&mut ird::Senders> {
        Some(&mut self.senders)
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
        let flight = plan.alone(0, nodes - 1).packet(plan.framing.wire(0).get());
        let policy = IrdPolicy { senders: ird::Senders::new(nodes, flight) };
        let mut ends = ends(policy, nodes, how, (None, timeout), ird::Credits::default);
        ends.most_outstanding = most_outstanding(&plan);
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

/// Returns the time on a receiver's link of what a receiver of `ird` has outstanding at most: what its port's buffer
/// holds beside one packet, or a round trip if that is more.
fn most_outstanding(plan: &StreamPlan) -> Time {
    let room = plan.buffer.of_port().get().saturating_sub(plan.full_packet().get());
    let pace = plan.network.topology.host_link().pace;
    let empties = if room < MOST_ROOM { pace.transmit(room) } else { Time::MAX };
    plan.round_trip().max(empties)
}

/// Buffer in bytes from which on a port counts as unlimited.
const MOST_ROOM: u64 = 1 << 32;

/// Returns the time of a segment on a node's link.
fn pace<P: ReceiverPolicy, O: Observer>(net: &Net<Ends<P>, O>, transfer: u32, segment: u32) -> Time {
    let PacketSize { wire, .. } = net.segment(transfer, segment);
    net.plan().network.topology.host_link().pace.transmit(u64::from(wire))
}

/// Returns the timeout `asked` for.
///
/// # Errors
/// If it is less than the round trip.
fn at_least_a_round_trip(key: &'static str, asked: Time, plan: &StreamPlan) -> Result<Time, SetupError> {
    match asked < plan.round_trip() {
        true => Err(SetupError::new(key, "is at least the round trip", asked)),
        false => Ok(asked),
    }
}
