//! All that happened to one message, or to every one.

use crate::engine::{Hop, Packet, Wait};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// What fabrics said about a message, in the order in which they said it.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// Of these messages; of all, if there are none.
    only: Vec<MessageId>,
    /// By message.
    entries: Vec<Vec<Entry>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Submitted(Time, Message),
    Completed(Time),
    Waits(Time, Wait),
    Lost(Time, Packet),
    Hop(Hop),
}

impl Journal {
    /// Of every message: about 200 bytes for each packet and link.
    pub fn of_all() -> Journal {
        Journal::default()
    }

    pub fn of(messages: Vec<MessageId>) -> Journal {
        Journal { only: messages, entries: Vec::new() }
    }

    pub(super) fn entries(&self, id: MessageId) -> impl Iterator<Item = &Entry> {
        self.entries.get(id.index()).into_iter().flatten()
    }

    /// Packets of a message over links, as decided.
    pub fn hops(&self, id: MessageId) -> impl Iterator<Item = &Hop> {
        self.entries(id).filter_map(|entry| match entry {
            Entry::Hop(hop) => Some(hop),
            _ => None,
        })
    }

    /// What kept a message from sending, and from when on.
    pub fn waiting(&self, id: MessageId) -> impl Iterator<Item = (Time, Wait)> {
        self.entries(id).filter_map(|entry| match entry {
            Entry::Waits(from, wait) => Some((*from, *wait)),
            _ => None,
        })
    }

    /// Packets that a message needed and that were lost, and when.
    pub fn lost(&self, id: MessageId) -> impl Iterator<Item = (Time, Packet)> {
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
    pub(super) fn note_lost(&mut self, id: MessageId, packet: &Packet, now: Time) {
        self.note(id, Entry::Lost(now, *packet));
    }
    pub(super) fn hop(&mut self, hop: &Hop) {
        if let Some(id) = hop.message {
            self.note(id, Entry::Hop(*hop));
        }
    }
    pub(super) fn waits(&mut self, id: MessageId, wait: Wait, now: Time) {
        self.note(id, Entry::Waits(now, wait));
    }
}
