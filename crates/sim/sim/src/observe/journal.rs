//! Journal of all events of one message, or of every message.

use unrack_engine::events::{Hop, ObservedPacket, WaitReason};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Reports of a fabric about messages, in the order in which it made them.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Messages that are recorded. If the list is empty, all messages are.
    only: Vec<MessageId>,
    /// Entries of each message, by message id.
    entries: Vec<Vec<Entry>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Submitted(Time, Message),
    Completed(Time),
    Waits(Time, WaitReason),
    Lost(Time, ObservedPacket),
    Hop(Hop),
}

impl Journal {
    /// Creates a journal of every message. It needs about 200 bytes for each packet and link.
    pub fn of_all() -> Journal {
        Journal::default()
    }

    /// Creates a journal of these messages.
    pub fn new(messages: Vec<MessageId>) -> Journal {
        Journal { only: messages, entries: Vec::new() }
    }

    pub(super) fn entries(&self, id: MessageId) -> impl Iterator<Item = &Entry> {
        self.entries.get(id.index()).into_iter().flatten()
    }

    /// Returns the hops of the packets of a message, in the order in which the fabric decided them.
    pub fn hops(&self, id: MessageId) -> impl Iterator<Item = &Hop> {
        self.entries(id).filter_map(|entry| match entry {
            Entry::Hop(hop) => Some(hop),
            _ => None,
        })
    }

    /// Returns the reasons why a message did not send, each with the time at which it began.
    pub fn waiting(&self, id: MessageId) -> impl Iterator<Item = (Time, WaitReason)> {
        self.entries(id).filter_map(|entry| match entry {
            Entry::Waits(from, wait) => Some((*from, *wait)),
            _ => None,
        })
    }

    /// Returns the lost packets that a message needed, each with the time of its loss.
    pub fn lost(&self, id: MessageId) -> impl Iterator<Item = (Time, ObservedPacket)> {
        self.entries(id).filter_map(|entry| match entry {
            Entry::Lost(at, packet) => Some((*at, *packet)),
            _ => None,
        })
    }

    fn note(&mut self, id: MessageId, entry: Entry) {
        if !self.only.is_empty() && !self.only.contains(&id) {
            return;
        }
        if self.entries.len() <= id.index() {
            self.entries.resize_with(id.index() + 1, Vec::new);
        }
        self.entries[id.index()].push(entry);
    }

    pub(super) fn submitted(&mut self, id: MessageId, message: &Message, now: Time) {
        self.note(id, Entry::Submitted(now, *message));
    }
    pub(super) fn completed(&mut self, id: MessageId, now: Time) {
        self.note(id, Entry::Completed(now));
    }
    pub(super) fn note_lost(&mut self, id: MessageId, packet: &ObservedPacket, now: Time) {
        self.note(id, Entry::Lost(now, *packet));
    }
    pub(super) fn hop(&mut self, hop: &Hop) {
        if let Some(id) = hop.message {
            self.note(id, Entry::Hop(*hop));
        }
    }
    pub(super) fn waits(&mut self, id: MessageId, wait: WaitReason, now: Time) {
        self.note(id, Entry::Waits(now, wait));
    }
}
