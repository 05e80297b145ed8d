//! What a fabric may know and do: the time, timers, messages, and the books to keep.

use super::busy::BusyTimes;
use super::observe::{Hop, LinkId, Observer, Packet, Wait};
use super::queue::{EventQueue, Tie, Tied};
use crate::run::{Ending, Outcome, Run};
use hdrhistogram::Histogram;
use std::sync::Arc;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Totals of a run. Payload only: what protocols add (headers, control blocks) is not in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// That fabrics scheduled for themselves.
    pub events: u64,
    /// Transmissions of one packet (or control block) over one link.
    pub packet_hops: u64,
    /// Payload that end nodes put on the network, retransmissions included.
    pub sent_bytes: u64,
    /// Payload that reached its end node, duplicates included.
    pub arrived_bytes: u64,
    /// Payload lost on the way. When nothing is in flight: sent = arrived + dropped.
    pub dropped_bytes: u64,
    pub dropped_packets: u64,
    /// Of traffic besides messages.
    pub background_sent_bytes: u64,
    pub background_arrived_bytes: u64,
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
    /// Of another part of the same run.
    pub(super) fn add(&mut self, part: &Counters) {
        let Counters {
            events,
            packet_hops,
            sent_bytes,
            arrived_bytes,
            dropped_bytes,
            dropped_packets,
            background_sent_bytes,
            background_arrived_bytes,
        } = part;
        self.events += events;
        self.packet_hops += packet_hops;
        self.sent_bytes += sent_bytes;
        self.arrived_bytes += arrived_bytes;
        self.dropped_bytes += dropped_bytes;
        self.dropped_packets += dropped_packets;
        self.background_sent_bytes += background_sent_bytes;
        self.background_arrived_bytes += background_arrived_bytes;
    }
}

/// The engine as a fabric sees it.
pub struct Core<E, O> {
    now: Time,
    queue: EventQueue<Event<E>>,
    /// Shared by the parts of a run that is split: of those, none admits any.
    messages: Arc<Vec<Message>>,
    pub(super) outcomes: Vec<Outcome>,
    completions: Vec<MessageId>,
    told: usize,
    pub(super) finished: u64,
    pub(super) counters: Counters,
    pub(super) queue_bytes: Histogram<u64>,
    pub(super) busy: BusyTimes,
    /// Messages that were given up, and when: for the other parts of a run that is split.
    pub(super) given_up: Vec<(Time, MessageId)>,
    observer: O,
}

/// What the queue holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event<E> {
    Wake(u32),
    Fabric(E),
}

impl<E: Tied, O: Observer> Core<E, O> {
    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Has [`Fabric::handle`](crate::Fabric::handle) called with `event` at `at`, which is not in
    /// the past. Events of one instant are handled in order of [`Tied`].
    pub fn schedule(&mut self, at: Time, event: E) {
        debug_assert!(at >= self.now, "scheduled in the past: {at} < {}", self.now);
        self.queue.push(at, Event::Fabric(event));
    }

    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.index()]
    }

    /// The message is complete now. Of one that was given up nobody wants to know any more.
    ///
    /// # Panics
    /// If it already was: a fabric completes a message once.
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

    /// A packet has a link for the time `busy`, from a time that is decided now. `hop` is called only if somebody looks
    /// on.
    pub fn hop(&mut self, link: LinkId, busy: Time, hop: impl FnOnce() -> Hop) {
        self.counters.packet_hops += 1;
        self.busy.add(link, busy);
        if O::HOPS {
            self.observer.hop(&hop(), self.now);
        }
    }
    /// A link carries for the time `busy` what is not a packet's alone, or no message's.
    pub fn occupied(&mut self, link: LinkId, busy: Time) {
        self.busy.add(link, busy);
    }
    /// As many times [`Core::hop`] as a fabric takes links for, that has no packets to look at.
    pub fn hops(&mut self, hops: u64) {
        self.counters.packet_hops += hops;
    }
    /// From now on `wait` keeps message `id` from sending: for those who ask where its time went. It is
    /// called only if somebody looks on.
    pub fn waits(&mut self, id: MessageId, wait: impl FnOnce() -> Wait) {
        if O::HOPS {
            self.observer.waits(id, wait(), self.now);
        }
    }
    /// It is neither complete nor given up.
    pub fn is_open(&self, id: MessageId) -> bool {
        let outcome = &self.outcomes[id.index()];
        outcome.completed().is_none() && !outcome.is_given_up()
    }

    /// The message will not be complete: who sends it, or waits for it, has given up. Nothing if it is
    /// complete or was given up.
    pub fn give_up(&mut self, id: MessageId) {
        if self.outcomes[id.index()].give_up() {
            self.finished += 1;
            self.given_up.push((self.now, id));
        }
    }

    /// An end node put `bytes` of payload on the network.
    pub fn sent(&mut self, bytes: u64) {
        self.counters.sent_bytes += bytes;
    }
    /// `bytes` of payload reached their end node.
    pub fn arrived(&mut self, bytes: u64) {
        self.counters.arrived_bytes += bytes;
    }
    /// A node sent, or received, `bytes` that belong to no message.
    pub fn background_sent(&mut self, bytes: u64) {
        self.counters.background_sent_bytes += bytes;
    }
    pub fn background_arrived(&mut self, bytes: u64) {
        self.counters.background_arrived_bytes += bytes;
    }
    /// A packet of message `id` with `bytes` of payload was lost. `packet` is called only if somebody looks on.
    pub fn dropped(&mut self, id: MessageId, bytes: u64, packet: impl FnOnce() -> Packet) {
        self.counters.dropped_bytes += bytes;
        self.counters.dropped_packets += 1;
        self.outcomes[id.index()].drops += 1;
        self.observer.dropped(id, bytes, self.now);
        self.lost(id, packet);
    }
    /// Message `id`, too, needs what a packet carried that was lost: [`Core::dropped`] has counted it.
    pub fn lost(&mut self, id: MessageId, packet: impl FnOnce() -> Packet) {
        if O::HOPS {
            self.observer.lost(id, &packet(), self.now);
        }
    }
    /// A packet of message `id` was sent again.
    pub fn retransmitted(&mut self, id: MessageId) {
        self.outcomes[id.index()].retransmissions += 1;
        self.observer.retransmitted(id, self.now);
    }
    /// A packet found `bytes` waiting ahead of it at this switch port. Called once per data packet and switch port, also when nothing waits: it is what `queue_bytes` averages.
    pub fn queued(&mut self, port: u32, bytes: u64) {
        self.queue_bytes.saturating_record(bytes);
        self.observer.queued(port, bytes, self.now);
    }
}

impl<E: Tied, O: Observer> Core<E, O> {
    pub(super) fn new(observer: O) -> Self {
        Core::with(Arc::default(), observer)
    }

    /// That knows all messages from the beginning.
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

    /// What a source's actor computes will be done then.
    pub(crate) fn wake_at(&mut self, at: Time, actor: u32) {
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

    /// A message that was known from the beginning is submitted now.
    pub(super) fn submit(&mut self, id: MessageId) {
        self.outcomes[id.index()].submitted = self.now;
    }

    /// The next event before `end`; see [`EventQueue::pop_before`].
    pub(super) fn pop_before(&mut self, end: Time) -> Option<(Time, Event<E>)> {
        self.queue.pop_before(end)
    }

    /// Nothing happens before. `None`: nothing happens at all.
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

    /// Nobody wants to know of them.
    pub(super) fn forget_completions(&mut self) {
        self.completions.clear();
    }

    /// Every message submitted so far has finished.
    pub(super) fn is_idle(&self) -> bool {
        self.finished == self.submitted()
    }

    pub(super) fn finish(self, ending: Ending, unloaded: impl Fn(&Message) -> Time) -> (Run, O) {
        let unloaded = self.messages.iter().map(unloaded).collect();
        let run = Run {
            messages: Arc::unwrap_or_clone(self.messages),
            outcomes: self.outcomes,
            unloaded,
            counters: self.counters,
            queue_bytes: self.queue_bytes,
            busy: self.busy,
            hosts: None,
            ended: self.now,
            ending,
        };
        (run, self.observer)
    }
}

/// Queues above this are counted as this: no switch buffers a terabyte.
const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// Queue lengths are kept to three significant digits.
const QUEUE_DIGITS: u8 = 3;
