//! Packets as they leave, in order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use unrack_engine::events::Hop;
use unrack_units::Time;
use unrack_workload::Message;

/// Passes packets on in the order in which their last bits leave.
///
/// Fabrics report a packet before it leaves. Therefore this view holds packets back until the time at which they leave.
pub struct Packets<'a> {
    held: BinaryHeap<Reverse<PacketInView>>,
    told: u64,
    messages: Vec<Message>,
    sink: Sink<'a>,
}

type Sink<'a> = Box<dyn FnMut(&Hop, Option<&Message>) + 'a>;

impl<'a> Packets<'a> {
    /// Creates a view. It passes each packet, with the message of the packet, to `sink`.
    pub fn new(sink: impl FnMut(&Hop, Option<&Message>) + 'a) -> Packets<'a> {
        Packets { held: BinaryHeap::new(), told: 0, messages: Vec::new(), sink: Box::new(sink) }
    }

    pub(super) fn submitted(&mut self, message: &Message) {
        self.messages.push(*message);
    }

    pub(super) fn hop(&mut self, hop: &Hop, now: Time) {
        self.release(now);
        self.held.push(Reverse(PacketInView { number: self.told, hop: *hop }));
        self.told += 1;
    }

    /// Passes on all packets that are still held back. It is called at the end of the run.
    pub fn finish(mut self) {
        self.release(Time::MAX);
    }

    fn release(&mut self, until: Time) {
        while let Some(Reverse(held)) = self.held.peek()
            && held.hop.last <= until
        {
            let message = held.hop.message.map(|id| &self.messages[id.index()]);
            (self.sink)(&held.hop, message);
            self.held.pop();
        }
    }
}

struct PacketInView {
    /// Number of packets that were reported before this one.
    number: u64,
    hop: Hop,
}

impl PacketInView {
    fn key(&self) -> (Time, u64) {
        (self.hop.last, self.number)
    }
}

impl PartialEq for PacketInView {
    fn eq(&self, other: &PacketInView) -> bool {
        self.key() == other.key()
    }
}
impl Eq for PacketInView {}
impl PartialOrd for PacketInView {
    fn partial_cmp(&self, other: &PacketInView) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for PacketInView {
    fn cmp(&self, other: &PacketInView) -> Ordering {
        self.key().cmp(&other.key())
    }
}
