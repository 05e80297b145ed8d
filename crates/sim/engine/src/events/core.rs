//! Interface between a fabric and the engine: time, timers, messages, and counters.

use super::busy::BusyTimes;
use super::observe::{Hop, LinkId, ObservedPacket, Observer, WaitReason};
use super::queue::{EventQueue, Tie, Tied};
use crate::run::{Ending, Outcome, Run};
use hdrhistogram::Histogram;
use std::sync::Arc;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Totals of a run. Bytes count payload only, without the headers and control blocks that protocols add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Events that fabrics scheduled for themselves.
    pub events: u64,
    /// Transmissions of one packet (or control block) over one link.
    pub packet_hops: u64,
    /// Payload that end nodes sent into the network, retransmissions included.
    pub sent_bytes: u64,
    /// Payload that reached its destination node, duplicates included.
    pub arrived_bytes: u64,
    /// Payload lost on the way, including the payload of trimmed packets. When no packet is in flight, sent = arrived +
    /// dropped.
    pub dropped_bytes: u64,
    /// Packets lost on the way.
    pub dropped_packets: u64,
    /// Packets that a switch trimmed: their payload was lost, and their header was forwarded.
    pub trimmed_packets: u64,
    /// Payload sent by background traffic, which belongs to no message.
    pub background_sent_bytes: u64,
    /// Payload received by background traffic, which belongs to no message.
    pub background_arrived_bytes: u64,
    /// Number of times that each [`Mechanism`] acted, in the sequence of the enumeration.
    pub acted: [u64; Mechanism::COUNT],
}

/// Mechanism that acts only under some conditions. A run in which it never acts does not depend on its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// A switch marks a packet for congestion.
    Mark,
    /// A switch asks the sender at the far end of a link to pause.
    Pause,
    /// A sender or a receiver waits too long, and a timer expires.
    Timeout,
    /// A sender must wait, because the receiver has no room for what it would send.
    Credit,
    /// A sender must wait, because it has as many messages under way as it may announce.
    ActiveLimit,
    /// A packet finds no room at a port, and is dropped.
    FullBuffer,
    /// A packet is lost or repeated because a link is down or has a bit error.
    Fault,
}

impl Mechanism {
    const COUNT: usize = Mechanism::Fault as usize + 1;
}

impl<E: Tied> Tied for Event<E> {
    fn tie(&self) -> u32 {
        match self {
            Event::Wake(_) => Tie::MESSAGE,
            Event::Fabric(event) => event.tie(),
        }
    }
}

impl Counters {
    /// Adds the counters of another part of the same run.
    pub(super) fn add(&mut self, part: &Counters) {
        let Counters {
            events,
            packet_hops,
            sent_bytes,
            arrived_bytes,
            dropped_bytes,
            dropped_packets,
            trimmed_packets,
            background_sent_bytes,
            background_arrived_bytes,
            acted,
        } = part;
        self.events += events;
        self.packet_hops += packet_hops;
        self.sent_bytes += sent_bytes;
        self.arrived_bytes += arrived_bytes;
        self.dropped_bytes += dropped_bytes;
        self.dropped_packets += dropped_packets;
        self.trimmed_packets += trimmed_packets;
        self.background_sent_bytes += background_sent_bytes;
        self.background_arrived_bytes += background_arrived_bytes;
        self.acted.iter_mut().zip(acted).for_each(|(all, of_part)| *all += of_part);
    }

    /// Returns the number of times that a mechanism acted.
    pub fn acted(&self, mechanism: Mechanism) -> u64 {
        self.acted[mechanism as usize]
    }
}

/// The engine, as a fabric uses it.
pub struct Core<E, O> {
    now: Time,
    queue: EventQueue<Event<E>>,
    /// All messages by id. The parts of a split run share this list, and no part adds to it.
    messages: Arc<Vec<Message>>,
    pub(super) outcomes: Vec<Outcome>,
    completions: Vec<MessageId>,
    told: usize,
    pub(super) finished: u64,
    pub(super) counters: Counters,
    queue_bytes: Histogram<u64>,
    /// Number of calls of [`Core::queued`] with an empty queue, the common case. They are added to `queue_bytes` only
    /// when it is read.
    empty_queues: u64,
    pub(super) busy: BusyTimes,
    /// Messages that were given up, and the times. The engine of a split run passes them on to the other parts.
    pub(super) given_up: Vec<(Time, MessageId)>,
    observer: O,
}

/// Event in the queue: a wakeup of an actor of the source, or an event of the fabric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<E> {
    Wake(u32),
    Fabric(E),
}

impl<E: Tied, O: Observer> Core<E, O> {
    /// Returns the present simulated time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Schedules a call of [`Fabric::handle`](crate::Fabric::handle) with `event` at `at`, which must not be in the
    /// past. Events of one instant are handled in the order of [`Tied`].
    pub fn schedule(&mut self, at: Time, event: E) {
        debug_assert!(at >= self.now, "scheduled in the past: {at} < {}", self.now);
        self.queue.push(at, Event::Fabric(event));
    }

    /// Returns the message with this id.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.index()]
    }

    /// Completes the message now. Does nothing if the message was given up.
    ///
    /// # Panics
    /// If the message is already complete, because a fabric completes a message once.
    pub fn complete(&mut self, id: MessageId) {
        let outcome = &mut self.outcomes[id.index()];
        if outcome.is_given_up() {
            return;
        }
        outcome.complete(self.now);
        self.finished += 1;
        self.completions.push(id);
        self.observer.completed(id, &self.messages[id.index()], self.now);
    }

    /// Counts a packet that occupies a link for the duration `busy`. Its transmission may start later, but its times
    /// are decided now. Calls `hop` only if there is an observer.
    pub fn hop(&mut self, link: LinkId, busy: Time, hop: impl FnOnce() -> Hop) {
        self.counters.packet_hops += 1;
        self.busy.add(link, busy);
        if O::HOPS {
            self.observer.hop(&hop(), self.now);
        }
    }
    /// Counts `busy` as time during which a link carries bits that belong to no single packet, or to no message.
    pub fn occupied(&mut self, link: LinkId, busy: Time) {
        self.busy.add(link, busy);
    }
    /// Counts `hops` transmissions at once, for a fabric that has no packets to describe. See [`Core::hop`].
    pub fn hops(&mut self, hops: u64) {
        self.counters.packet_hops += hops;
    }
    /// Records that message `id` cannot send from now on, because of `wait`. Calls `wait` only if there is an observer.
    pub fn waits(&mut self, id: MessageId, wait: impl FnOnce() -> WaitReason) {
        if O::HOPS {
            self.observer.waits(id, wait(), self.now);
        }
    }
    /// Returns whether the message is neither complete nor given up.
    pub fn is_open(&self, id: MessageId) -> bool {
        let outcome = &self.outcomes[id.index()];
        outcome.completed().is_none() && !outcome.is_given_up()
    }

    /// Gives up the message, because its sender or the node that waits for it has stopped trying. Does nothing if the
    /// message is already complete or given up.
    pub fn give_up(&mut self, id: MessageId) {
        if self.outcomes[id.index()].give_up() {
            self.finished += 1;
            self.given_up.push((self.now, id));
        }
    }

    /// Counts `bytes` of payload that an end node sent into the network.
    pub fn sent(&mut self, bytes: u64) {
        self.counters.sent_bytes += bytes;
    }
    /// Counts `bytes` of payload that reached their destination node.
    pub fn arrived(&mut self, bytes: u64) {
        self.counters.arrived_bytes += bytes;
    }
    /// Counts `bytes` of background traffic that a node sent; they belong to no message.
    pub fn background_sent(&mut self, bytes: u64) {
        self.counters.background_sent_bytes += bytes;
    }
    /// Counts `bytes` of background traffic that a node received; they belong to no message.
    pub fn background_arrived(&mut self, bytes: u64) {
        self.counters.background_arrived_bytes += bytes;
    }
    /// Counts the loss of a packet of message `id` with `bytes` of payload. Calls `packet` only if there is an
    /// observer.
    pub fn dropped(&mut self, id: MessageId, bytes: u64, packet: impl FnOnce() -> ObservedPacket) {
        self.counters.dropped_bytes += bytes;
        self.counters.dropped_packets += 1;
        self.outcomes[id.index()].drops += 1;
        self.observer.dropped(id, bytes, self.now);
        self.lost(id, packet);
    }
    /// Counts a packet of message `id` that a switch trimmed: its `bytes` of payload were removed, and its header was
    /// forwarded. Calls `packet` only if there is an observer.
    pub fn trimmed(&mut self, id: MessageId, bytes: u64, packet: impl FnOnce() -> ObservedPacket) {
        self.counters.dropped_bytes += bytes;
        self.counters.trimmed_packets += 1;
        self.outcomes[id.index()].trims += 1;
        self.observer.dropped(id, bytes, self.now);
        self.lost(id, packet);
    }
    /// Counts that a mechanism acted.
    pub fn acted(&mut self, mechanism: Mechanism) {
        self.counters.acted[mechanism as usize] += 1;
    }
    /// Counts a fault if there is one. Returns its argument: whether a packet is lost on a link.
    pub fn met_fault(&mut self, is_lost: bool) -> bool {
        if is_lost {
            self.acted(Mechanism::Fault);
        }
        is_lost
    }
    /// Reports to the observer that message `id` also needed a lost packet. [`Core::dropped`] has already counted the
    /// packet.
    pub fn lost(&mut self, id: MessageId, packet: impl FnOnce() -> ObservedPacket) {
        if O::HOPS {
            self.observer.lost(id, &packet(), self.now);
        }
    }
    /// Counts a retransmission of a packet of message `id`.
    pub fn retransmitted(&mut self, id: MessageId) {
        self.outcomes[id.index()].retransmissions += 1;
        self.observer.retransmitted(id, self.now);
    }
    /// Records that a packet found `bytes` waiting ahead of it at this switch port. The fabric must call this once per
    /// data packet and switch port, even if no bytes wait, because `queue_bytes` averages over these calls.
    pub fn queued(&mut self, port: u32, bytes: u64) {
        match bytes {
            0 => self.empty_queues += 1,
            _ => self.queue_bytes.saturating_record(bytes),
        }
        self.observer.queued(port, bytes, self.now);
    }
}

impl<E: Tied, O: Observer> Core<E, O> {
    pub(super) fn new(observer: O) -> Self {
        Core::with(Arc::default(), observer)
    }

    /// Creates a core that knows all messages from the beginning, for a part of a split run.
    pub(super) fn with(messages: Arc<Vec<Message>>, observer: O) -> Self {
        Core {
            now: Time::ZERO,
            queue: EventQueue::new(),
            outcomes: vec![Outcome::submitted(Time::ZERO); messages.len()],
            messages,
            completions: Vec::new(),
            told: 0,
            finished: 0,
            counters: Counters::default(),
            queue_bytes: Histogram::new_with_bounds(1, MAX_QUEUE_BYTES, QUEUE_DIGITS)
                .expect("constant bounds are valid"),
            empty_queues: 0,
            busy: BusyTimes::default(),
            given_up: Vec::new(),
            observer,
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Event<E>)> {
        self.queue.pop()
    }

    pub(super) fn advance(&mut self, to: Time) {
        debug_assert!(to >= self.now, "time went back");
        self.now = to;
    }

    /// Schedules a wakeup of an actor of the source at `at`, for example at the end of its computation.
    pub fn wake_at(&mut self, at: Time, actor: u32) {
        assert!(at >= self.now, "a source asked to be woken in the past");
        self.queue.push(at, Event::Wake(actor));
    }

    pub(super) fn admit(&mut self, message: Message) -> MessageId {
        let id = MessageId(u32::try_from(self.messages.len()).expect("at most 2^32 messages"));
        Arc::get_mut(&mut self.messages).expect("parts of a run admit nothing").push(message);
        self.outcomes.push(Outcome::submitted(self.now));
        self.observer.submitted(id, &message, self.now);
        id
    }

    /// Marks a message as submitted now. The message was known from the beginning.
    pub(super) fn submit(&mut self, id: MessageId) {
        self.outcomes[id.index()].submitted = self.now;
    }

    /// Removes and returns the next event if it is due before `end`. See [`EventQueue::pop_before`].
    pub(super) fn pop_before(&mut self, end: Time) -> Option<(Time, Event<E>)> {
        self.queue.pop_before(end)
    }

    /// Returns a lower bound of the time of the next event; `None` if there is no event.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.queue.earliest()
    }

    pub(super) fn submitted(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(super) fn next_completion(&mut self) -> Option<MessageId> {
        let next = self.completions.get(self.told).copied();
        match next {
            Some(_) => self.told += 1,
            None => {
                self.completions.clear();
                self.told = 0;
            }
        }
        next
    }

    /// Discards completions. In a split run, no source waits for them.
    pub(super) fn forget_completions(&mut self) {
        self.completions.clear();
    }

    /// Returns whether every message submitted so far has finished.
    pub(super) fn is_idle(&self) -> bool {
        self.finished == self.submitted()
    }

    /// Returns the histogram of the queue lengths that packets found on arrival.
    pub(super) fn queue_bytes(&self) -> Histogram<u64> {
        let mut all = self.queue_bytes.clone();
        all.saturating_record_n(0, self.empty_queues);
        all
    }

    pub(super) fn finish(self, ending: Ending, unloaded: impl Fn(&Message, &Outcome) -> Time) -> (Run, O) {
        let queue_bytes = self.queue_bytes();
        let each = self.messages.iter().zip(&self.outcomes);
        let unloaded = each.map(|(message, outcome)| unloaded(message, outcome)).collect();
        let run = Run {
            messages: Arc::unwrap_or_clone(self.messages),
            outcomes: self.outcomes,
            unloaded,
            counters: self.counters,
            queue_bytes,
            busy: self.busy,
            hosts: None,
            ended: self.now,
            ending,
        };
        (run, self.observer)
    }
}

/// Largest queue length that is recorded, in bytes. Longer queues are recorded as this length; no switch buffers a
/// terabyte.
const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// Significant decimal digits of recorded queue lengths.
const QUEUE_DIGITS: u8 = 3;
