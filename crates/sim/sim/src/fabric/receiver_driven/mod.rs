//! `phost`, `homa` and `ird`: receivers grant the packets that senders send.
//!
//! [`TransferEnds`] is the part that the three protocols share, and a [`ReceiverPolicy`] is the part in which they differ. Grants and
//! acknowledgements are sent before all data.

mod granting;
mod homa;
mod ird;
mod phost;

pub use self::homa::{Homa, HomaPolicy};
pub use self::ird::{Ird, IrdPolicy};
pub use self::phost::{Phost, PhostPolicy};

use self::granting::pace;
use super::packet::{
    self, Net, Packet, PacketNetwork, StrictPriority, Transfer, TransferSide, Transport, fabric_of_packets,
};
use super::stream::StreamPlan;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, WaitReason};
use unrack_protocol::ird::GlobalView;
use unrack_protocol::receiver_driven::{Expiry, GrantedSender, Grants, Scheduler, TransferId};
use unrack_protocol::silence;
use unrack_protocol::turns::{TurnIndex, Turns};
use unrack_units::Time;
use unrack_workload::{Message, NodeId};

/// Moment at which a receiver learns of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnnouncementTime {
    /// The receiver learns of the transfer when it is opened, in zero time.
    AtOnce,
    /// An announcement, which is sent before all data, informs the receiver.
    ByPacket,
    /// The first data packet to arrive informs the receiver, because each data packet carries the size of the transfer.
    ByData,
}

/// Rules in which the receiver-driven protocols differ.
pub trait ReceiverPolicy: Send {
    type Scheduler: Scheduler + Send;
    /// Whether runs of the protocol can be split: see [`Transport::SPLITS`].
    const SPLITS: bool;
    /// Number of consecutive timeouts of a receiver, without an arrival, that have the same length. Later timeouts double.
    const STEADY: u32 = silence::STEADY;
    /// Returns the view that all receivers share, or `None` if they share none.
    fn view(&mut self) -> Option<&mut GlobalView> {
        None
    }
    /// Informs the scheduler of a receiver that the state of a transfer has changed.
    fn update(&mut self, receiver: &mut Self::Scheduler, transfer: TransferId, grants: &mut Grants);
    /// Returns the transfer that the receiver grants now, and the rank of the segment. `outstanding` returns how many granted segments of a
    /// transfer have not arrived.
    fn choose(
        &mut self,
        receiver: &mut Self::Scheduler,
        now: Time,
        outstanding: impl Fn(TransferId) -> u32,
    ) -> Option<(TransferId, u8)>;
    /// Returns a receiver that waited for room at this sender, and that may grant now.
    fn next_waiting(
        &mut self,
        _receivers: &mut [Receiver<Self::Scheduler>],
        _sender: NodeId,
    ) -> Option<NodeId> {
        None
    }
    /// Returns the rank of the segments that need no grant, for a transfer of this size to this receiver.
    fn unasked_rank(&self, receiver: &Self::Scheduler, segments: u32) -> u8;
    /// Returns whether a receiver has nothing to grant, and no credits of the shared view are outstanding.
    #[cfg(test)]
    fn is_idle(&self, receiver: &Self::Scheduler) -> bool;
    /// Counts a transfer that the receiver has just learned of.
    fn count(&self, _receiver: &mut Self::Scheduler, _segments: u32) {}
}

/// Endpoints of all transfers, and the schedulers of all receivers.
struct TransferEnds<P: ReceiverPolicy> {
    policy: P,
    announced: AnnouncementTime,
    /// Number of segments of a transfer that need no grant.
    unasked: u32,
    expiry: Option<Expiry>,
    /// Time without an arrival after which a receiver considers its grants lost.
    timeout: Time,
    /// Timeout for segments that need no grant: the time after which a receiver that awaits such segments considers them lost, and after
    /// which a sender without any reply announces its transfer again. It may be longer than `timeout`, because senders do not know of each
    /// other's ungranted segments, which may fill a port, while granted segments arrive at the rate of the link.
    patience: Time,
    /// Round trip after which granted packets should arrive. If it is set, a receiver considers its grants lost only if its link has been
    /// idle since that time, or if `patience` has passed, because missing packets may be in the queue while other packets arrive back to
    /// back. If it is `None`, the receiver does not check whether its link was idle.
    idles_after: Option<Time>,
    transfers: Vec<TransferPair>,
    /// For each node, the transfers that may send, ordered by the number of segments left to send.
    ready: Vec<Turns>,
    receivers: Vec<Receiver<P::Scheduler>>,
}

struct TransferPair {
    source: GrantedSender,
    place: TurnIndex,
    grants: Grants,
    /// Whether the receiver knows of the transfer.
    known: bool,
    /// Time at which the receiver considers its grants lost.
    deadline: Time,
    /// Time of the latest grant, or of the announcement if there was no grant.
    granted_at: Time,
}

/// State of a receiver.
pub struct Receiver<S> {
    scheduler: S,
    /// Time of the next scheduled [`Poll`].
    polled_at: Option<Time>,
    /// End of the latest packet that arrived. `idle_at` is the latest time at which the link was idle before that packet.
    last_arrival: Time,
    idle_at: Time,
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    /// Announces a transfer. `again`: the sender has had no reply, and has sent all segments that it may send.
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

/// Timer event: the scheduler of this node may have a grant to issue.
#[derive(Debug, Clone, Copy)]
pub struct Poll(NodeId);

/// Rank of control packets, which are sent before all data.
const CONTROL: u32 = 0;

impl<P: ReceiverPolicy> TransferEnds<P> {
    fn sendable<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let src = net.transfer(transfer).src;
        let TransferPair { source, place, .. } = &mut self.transfers[transfer as usize];
        let size = source.is_ready().then(|| source.unsent());
        self.ready[src as usize].set(transfer, place, size);
        self.tell_wait(net, transfer);
        if size.is_some() {
            net.wake(src);
        }
    }

    /// Reports the reason why a transfer cannot send, as far as the sender and the receiver know it.
    fn tell_wait<O: Observer>(&self, net: &mut Net<Self, O>, transfer: u32) {
        let (pair, dst) = (&self.transfers[transfer as usize], net.transfer(transfer).dst);
        if pair.source.is_done() {
            return;
        }
        net.waits(transfer, || match pair.source.is_ready() {
            true => WaitReason::Turn,
            false if pair.known && self.receivers[dst as usize].scheduler.could_grant(&pair.grants) => {
                WaitReason::GrantTurn
            }
            false => WaitReason::Grant,
        });
    }

    /// Informs the receiver of a transfer. `is_lost`: whether its ungranted segments count as lost.
    fn announce<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, is_lost: bool) {
        let (dst, segments) = (net.transfer(transfer).dst, net.transfer(transfer).segments);
        // Keep the transfer until the receiver has finished with it.
        net.hold(transfer);
        let pair = &mut self.transfers[transfer as usize];
        pair.known = true;
        (pair.granted_at, pair.deadline) = (net.now(), net.now() + self.patience);
        self.policy.count(&mut self.receivers[dst as usize].scheduler, segments);
        if is_lost {
            pair.grants.expire();
        }
        self.update(transfer, dst);
        self.tell_wait(net, transfer);
        self.keep_alarm(net, transfer, TransferSide::Receiver);
    }

    fn segment<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>, number: u32) {
        let (transfer, node) = (packet.transfer, packet.to);
        let pair = &mut self.transfers[transfer as usize];
        if pair.grants.has_given_up() {
            return self.say_done(net, packet);
        }
        let new = pair.grants.arrive(number);
        let wait = if pair.grants.awaits_unasked() { self.patience } else { self.timeout };
        let before = std::mem::replace(&mut pair.deadline, net.now() + pair.grants.timeout(wait));
        let (complete, is_sooner) = (pair.grants.is_complete(), pair.deadline < before);
        self.update(transfer, node);
        if is_sooner {
            self.keep_alarm(net, transfer, TransferSide::Receiver);
        }
        self.tell_wait(net, transfer);
        if complete && new {
            net.release(transfer);
        }
        // A new complete request gets no reply, because its answer acknowledges it.
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

impl<P: ReceiverPolicy> Transport for TransferEnds<P> {
    type Header = Header;
    type Timer = Poll;
    type Queue = StrictPriority;
    const SPRAYS: bool = true;
    const SPLITS: bool = P::SPLITS;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let Transfer { segments, name, .. } = *net.transfer(transfer);
        let salt = |side| net.salt(transfer, side);
        let patience = (self.patience, salt(TransferSide::Sender));
        let source = GrantedSender::new(segments, self.unasked, self.expiry, patience, net.now());
        let grants = Grants::new(segments, self.unasked, name, (salt(TransferSide::Receiver), P::STEADY));
        let place = TurnIndex::new(name);
        let (known, deadline, granted_at) = (false, Time::MAX, Time::ZERO);
        let pair = TransferPair { source, place, grants, known, deadline, granted_at };
        packet::put(&mut self.transfers, transfer, pair);
        if let Some(view) = self.policy.view() {
            let (src, dst) = (net.transfer(transfer).src, net.transfer(transfer).dst);
            view.create(transfer, (src, dst), pace(net, transfer, 0), name);
        }
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let (src, dst) = (net.transfer(transfer).src, net.transfer(transfer).dst);
        match self.announced {
            AnnouncementTime::AtOnce => {
                self.announce(net, transfer, false);
                self.grant(net, dst);
            }
            AnnouncementTime::ByPacket => {
                let header = Header::Announce { again: false };
                net.send_first(src, Packet::new(transfer, dst, net.bare(), CONTROL, header));
            }
            AnnouncementTime::ByData => {}
        }
        self.keep_alarm(net, transfer, TransferSide::Sender);
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
            let unused = self.policy.view().map(|view| view.unused(transfer));
            self.forget_credits(net, transfer, unused.unwrap_or(0).saturating_sub(1));
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
        self.note_arrival(net, packet);
        let pair = &mut self.transfers[transfer as usize];
        match packet.header {
            Header::Announce { .. } | Header::Segment(_) if !pair.known => {
                // Homa §3.7: a receiver that is asked about an unknown transfer considers all of its segments lost, and requests the first
                // ones at once.
                let is_lost = matches!(packet.header, Header::Announce { again: true });
                self.announce(net, transfer, is_lost);
                if let Header::Segment(number) = packet.header {
                    return self.segment(net, packet, number);
                }
                self.grant(net, packet.to);
            }
            Header::Announce { .. } if pair.grants.is_over() => self.say_done(net, packet),
            Header::Announce { .. } if pair.grants.is_silent() => {
                // The sender is alive, so the receiver need not wait until its grants count as lost.
                pair.grants.expire();
                self.expired(net, transfer);
                self.tell_wait(net, transfer);
                self.grant(net, packet.to);
            }
            Header::Announce { .. } => {}
            Header::Segment(number) => self.segment(net, packet, number),
            Header::Grant { segment, rank } => {
                pair.source.handle_grant(net.now(), segment, rank);
                // The grant ends a timeout that may have been doubled.
                self.keep_alarm(net, transfer, TransferSide::Sender);
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
        self.ready.iter().all(Turns::is_empty)
            && self.receivers.iter().all(|receiver| self.policy.is_idle(&receiver.scheduler))
    }

    fn deadline(&self, transfer: u32, side: TransferSide) -> Option<Time> {
        let pair = &self.transfers[transfer as usize];
        match side {
            TransferSide::Sender => pair.source.poll_timeout(),
            TransferSide::Receiver => (!pair.grants.is_over()).then_some(pair.deadline),
        }
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, side: TransferSide) {
        let (src, dst, now) = (net.transfer(transfer).src, net.transfer(transfer).dst, net.now());
        let pair = &mut self.transfers[transfer as usize];
        match side {
            TransferSide::Sender => {
                if pair.source.handle_timeout(now) {
                    let header = Header::Announce { again: true };
                    net.send_first(src, Packet::new(transfer, dst, net.bare(), CONTROL, header));
                } else if pair.source.has_given_up() {
                    self.sendable(net, transfer);
                    self.forget_credits(net, transfer, 0);
                    net.give_up(transfer);
                }
            }
            TransferSide::Receiver => {
                if let Some(later) = self.may_be_queued(net, transfer) {
                    self.transfers[transfer as usize].deadline = later;
                    return;
                }
                let pair = &mut self.transfers[transfer as usize];
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
        // Time that a lone transfer waits before its first data packet.
        packet::alone::<Self>(plan, message, None, |src, dst| match self.announced {
            AnnouncementTime::AtOnce => plan.alone(dst, src).packet(bare),
            AnnouncementTime::ByPacket => plan.network.topology.host_link().pace.transmit(bare),
            AnnouncementTime::ByData => Time::ZERO,
        })
    }
}

/// Packet network with a receiver-driven protocol.
pub struct ReceiverDriven<P: ReceiverPolicy> {
    network: PacketNetwork<TransferEnds<P>>,
}

impl<P: ReceiverPolicy> ReceiverDriven<P> {
    fn new(plan: StreamPlan, ends: TransferEnds<P>) -> Result<Self, SetupError> {
        Ok(ReceiverDriven { network: PacketNetwork::new(plan, ends, StrictPriority::default())? })
    }
}

fabric_of_packets!(ReceiverDriven<P: ReceiverPolicy>, Poll, Header);

/// Creates the endpoints of a receiver-driven protocol. `unasked`: number of packets of a transfer that need no grant.
fn ends<P: ReceiverPolicy>(
    policy: P,
    nodes: u32,
    (announced, unasked): (AnnouncementTime, u32),
    (expiry, timeout): (Option<Expiry>, Time),
    scheduler: impl Fn() -> P::Scheduler,
) -> TransferEnds<P> {
    let none = Time::ZERO;
    let receiver =
        |_| Receiver { scheduler: scheduler(), polled_at: None, last_arrival: none, idle_at: none };
    let ready = vec![Turns::default(); nodes as usize];
    let (transfers, receivers) = (Vec::new(), (0..nodes).map(receiver).collect());
    TransferEnds {
        policy,
        announced,
        unasked,
        expiry,
        timeout,
        patience: timeout,
        idles_after: None,
        transfers,
        ready,
        receivers,
    }
}

/// Returns the timeout `asked`.
///
/// # Errors
/// If the timeout is less than the round trip.
fn at_least_a_round_trip(key: &'static str, asked: Time, plan: &StreamPlan) -> Result<Time, SetupError> {
    match asked < plan.round_trip() {
        true => Err(SetupError::new(key, "is at least the round trip", asked)),
        false => Ok(asked),
    }
}
