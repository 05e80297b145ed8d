//! CXL.mem: transfer of cache lines over links that never drop a message, because a sender spends a credit for a free
//! buffer of its receiver on each message (CXL 3.x specification; baseline of EDM §4.3).
//!
//! | module | holds |
//! |---|---|
//! | [`Params`] | parameters |
//! | [`FlitTransmitter`] | sending end of a link: holds credits per message class, and packs messages into the slots of flits |
//! | [`FlitSlots`] | which flits the messages of a run take |
//! | [`Switch`] | one first-in-first-out queue per input and message class; each output serves the queues round robin |
//! | [`Node`] | a node that is both a host and a memory device: it sends requests, and answers requests of other nodes |
//!
//! A read of n lines is n requests (M2S Req), each answered with data (S2M DRS). A write is n requests with data (M2S
//! RwD), each answered without data (S2M NDR). The four message classes (Req, RwD, NDR, DRS) have separate credits and
//! queues, and a node always accepts the answers to its requests. Queues of answers therefore always drain. Then memory
//! nodes can answer more requests, so that the queues of requests drain too, and there is no deadlock.
//!
//! Several messages of one transfer may travel together as a run ([`Params::run`]). In each queue, a run is one entry,
//! and each node and switch output schedules the run as one message. However, each message of the run takes its own
//! credit, buffer and slots. A run is never split.
//!
//! This model has no congestion control. If the request buffers of a memory node are full, further requests for it stay
//! in the input queues of the switch, and the messages behind them wait too, even if they have other destinations. This
//! head-of-line blocking results from the queues and credits; no extra rule models it. It can be turned off
//! ([`Params::blocking`]), so that its cost can be measured.
//!
//! Departure: CXL.mem has no atomic operation that returns data. Here a read-modify-write is a request with data (RwD)
//! that the memory node answers with data (DRS).
//!
//! Departure: the specification limits how many messages of one class may start in one flit, and allows one slot to
//! hold the headers of several data messages. Here every message takes one whole slot for its header, and this may be
//! any free slot of a flit.

mod link;
mod node;
mod params;
mod run;
mod switch;
#[cfg(test)]
mod tests;

pub use link::{Feed, FlitTransmitter};
pub use node::{Burst, DepartedMessage, Node};
pub use params::{AnswerOrder, Flit, Params};
pub use run::FlitSlots;
pub use switch::Switch;

use unrack_units::Time;

/// Size of a cache line in bytes. A message with data carries one cache line.
pub const LINE_BYTES: u64 = 64;

/// Message classes of CXL.mem. Each has its own credits and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageClass {
    /// Master to subordinate: a request without data, which reads a cache line.
    Req,
    /// Master to subordinate: a request with data, which writes a cache line or performs a read-modify-write on it.
    RwD,
    /// Subordinate to master: an answer without data, which acknowledges a write.
    Ndr,
    /// Subordinate to master: an answer with the data of a cache line.
    Drs,
}

/// Number of message classes.
pub const CLASSES: usize = 4;

impl MessageClass {
    /// All message classes, in the order of [`MessageClass::index`].
    pub const ALL: [MessageClass; CLASSES] =
        [MessageClass::Req, MessageClass::RwD, MessageClass::Ndr, MessageClass::Drs];

    /// Returns the position of the class in [`MessageClass::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether a message of the class carries the data of a cache line.
    pub const fn has_data(self) -> bool {
        matches!(self, MessageClass::RwD | MessageClass::Drs)
    }

    /// Returns the number of 16 B slots that a message of the class takes in flits: one for the header, and four more
    /// if the message carries a cache line.
    pub const fn slots(self) -> u32 {
        if self.has_data() { 5 } else { 1 }
    }
}

/// One message of the link layer, or a run. A run is several messages of one class and one transfer that travel
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Number of the transfer that the message belongs to. The driver chooses this number.
    pub message: u32,
    pub src: u16,
    pub dst: u16,
    pub class: MessageClass,
    /// Whether the message belongs to a read-modify-write. Such a request carries data and is answered with data.
    pub fetches: bool,
    /// Number of messages in the run; 1 for a single message. Each message takes its own credit, buffer and slots.
    pub count: u8,
    /// Time at which the last message of the run reaches the point in the network that the first message has reached.
    pub last: Time,
}

/// A set of message classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassSet(u8);

impl ClassSet {
    /// The empty set.
    pub const NONE: ClassSet = ClassSet(0);
    /// The set of all classes.
    pub const ALL: ClassSet = ClassSet(0b1111);

    /// Returns the set of the classes for which `is_in` returns `true`.
    pub fn of(is_in: impl Fn(MessageClass) -> bool) -> ClassSet {
        let mut set = ClassSet::NONE;
        MessageClass::ALL.into_iter().filter(|class| is_in(*class)).for_each(|class| set.insert(class));
        set
    }

    /// Adds a class.
    pub fn insert(&mut self, class: MessageClass) {
        self.0 |= 1 << class.index();
    }
    /// Removes a class.
    pub fn remove(&mut self, class: MessageClass) {
        self.0 &= !(1 << class.index());
    }
    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns the classes that are in this set and in `other`.
    pub fn and(self, other: ClassSet) -> ClassSet {
        ClassSet(self.0 & other.0)
    }
    /// Returns whether the set contains `class`.
    pub fn contains(self, class: MessageClass) -> bool {
        self.0 & (1 << class.index()) != 0
    }

    /// Returns the first class of the set, counted from the class with index `from` on and wrapping around after the
    /// last class. Returns `None` if the set is empty.
    fn next_from(self, from: usize) -> Option<MessageClass> {
        let turned = (u32::from(self.0) | u32::from(self.0) << CLASSES) >> (from % CLASSES);
        (turned != 0).then(|| MessageClass::ALL[(from + turned.trailing_zeros() as usize) % CLASSES])
    }
}
