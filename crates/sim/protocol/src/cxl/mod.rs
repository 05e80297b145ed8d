//! CXL.mem: cache lines over links that never drop, because every sender holds credits for the buffers of its receiver
//! (CXL 3.x specification; baseline of EDM §4.3).
//!
//! | module | holds |
//! |---|---|
//! | [`Params`] | parameters |
//! | [`FlitTransmitter`] | sending end of a link: credits per message class, flits and their slots |
//! | [`Slots`] | the flits that consecutive lines take |
//! | [`Switch`] | one first-in-first-out queue per input and class, round robin at each output |
//! | [`Node`] | host and memory device in one: it sends requests and answers those of others |
//!
//! A read of n lines is n requests (M2S Req), each answered with data (S2M DRS). A write is n requests with data (M2S
//! RwD), each answered without data (S2M NDR). The four classes have separate credits and queues, and a node that sent
//! a request always accepts the answer. Answers therefore drain, so that requests drain too, and there is no deadlock.
//!
//! Several lines of one transfer may travel together as a run ([`Params::run`]). A run takes one place in each queue
//! and one turn at each node and output, but each of its lines takes credits, buffers and slots. A run is never split.
//!
//! No part of this model reacts to congestion. If a memory node is full, its requests stay in the switch's input
//! queues, and the messages behind them wait too, whatever their destination. This head-of-line blocking follows from
//! the queues and credits alone.
//!
//! Departure: CXL.mem has no atomic operation with an answer. Here a read-modify-write is a request with data that is
//! answered with data.
//!
//! Departure: the specification limits the number of messages of a class that start in one flit, and can pack several
//! headers of data into one slot. Here every message takes a header slot, wherever one is free.

mod link;
mod node;
mod params;
mod run;
mod switch;
#[cfg(test)]
mod tests;

pub use link::{Feed, FlitTransmitter};
pub use node::{Burst, DepartedMessage, Node};
pub use params::{Flit, Params};
pub use run::FlitSlots;
pub use switch::Switch;

use unrack_units::Time;

/// Bytes of a cache line, which is the payload of one message.
pub const LINE_BYTES: u64 = 64;

/// Message classes of CXL.mem. Each has its own credits and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageClass {
    /// Master to subordinate: a request without data.
    Req,
    /// Master to subordinate: a request with data.
    RwD,
    /// Subordinate to master: no data.
    Ndr,
    /// Subordinate to master: data.
    Drs,
}

/// Number of message classes.
pub const CLASSES: usize = 4;

impl MessageClass {
    /// All classes, in the order of [`Class::index`].
    pub const ALL: [MessageClass; CLASSES] =
        [MessageClass::Req, MessageClass::RwD, MessageClass::Ndr, MessageClass::Drs];

    /// Returns the position of the class in [`Class::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether messages of the class carry a line of data.
    pub const fn has_data(self) -> bool {
        matches!(self, MessageClass::RwD | MessageClass::Drs)
    }

    /// Returns the number of 16 B slots that a message takes: one for the header, and four more for a line of data.
    pub const fn slots(self) -> u32 {
        if self.has_data() { 5 } else { 1 }
    }
}

/// One message of the link layer, or a run: several messages of one transfer that travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Transfer that the message belongs to, by a number that the driver chooses.
    pub message: u32,
    pub src: u16,
    pub dst: u16,
    pub class: MessageClass,
    /// Whether this is a request with data that is answered with data.
    pub fetches: bool,
    /// Number of messages in the run. Each of them takes credits, buffers and slots.
    pub count: u8,
    /// Time at which the last message of a run reaches the place where the first one is now.
    pub last: Time,
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassSet(u8);

impl ClassSet {
    /// The empty set.
    pub const NONE: ClassSet = ClassSet(0);
    /// The set of all classes.
    pub const ALL: ClassSet = ClassSet(0b1111);

    /// Adds a class.
    pub fn insert(&mut self, class: MessageClass) {
        self.0 |= 1 << class.index();
    }
    /// Removes a class.
    pub fn remove(&mut self, class: MessageClass) {
        self.0 &= !(1 << class.index());
    }
    /// Returns whether the set has no class.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns the classes that are in both sets.
    pub fn and(self, other: ClassSet) -> ClassSet {
        ClassSet(self.0 & other.0)
    }
    /// Returns whether the set has a class.
    pub fn contains(self, class: MessageClass) -> bool {
        self.0 & (1 << class.index()) != 0
    }

    /// Returns the first class of the set whose number is at least `from`, wrapping around.
    fn next_from(self, from: usize) -> Option<MessageClass> {
        let turned = (u32::from(self.0) | u32::from(self.0) << CLASSES) >> (from % CLASSES);
        (turned != 0).then(|| MessageClass::ALL[(from + turned.trailing_zeros() as usize) % CLASSES])
    }
}
