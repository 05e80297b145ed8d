//! CXL.mem: cache lines over links that never drop, because every sender holds credits for the
//! buffers of its receiver (CXL 3.x specification; baseline of EDM §4.3).
//!
//! | module | holds |
//! |---|---|
//! | [`Params`] | parameters |
//! | [`FlitTransmitter`] | the sending end of a link: credits per message class, flits and their slots |
//! | [`Slots`] | which flits lines take that follow each other |
//! | [`Switch`] | one first-in-first-out queue per input and class, round robin at each output |
//! | [`Node`] | host and memory device in one: requests out, answers back |
//!
//! A read of n lines is n requests (M2S Req), each answered with data (S2M DRS); a write is n requests with data (M2S
//! RwD), each answered without (S2M NDR). The four classes have separate credits and queues, and a node that sent a
//! request always takes in the answer: so answers drain, hence requests drain, and there is no deadlock.
//!
//! Several lines of one transfer may travel together, as a run ([`Params::run`]): with a place in each queue, a turn at
//! each node and output, and credits, buffers and slots for each line. A run is never cut.
//!
//! Nothing here reacts to congestion. A full memory node leaves its requests in the switch's input queues, and the
//! messages behind them wait too, whatever their destination: head-of-line blocking follows from the queues and credits
//! alone.
//!
//! Departure: CXL.mem has no atomic with an answer; a read-modify-write is a request with data that is
//! answered with data.
//! Departure: the specification limits the messages of a class that start in one flit, and can pack
//! several headers of data in a slot. Here every message takes a header slot, wherever one is free.

mod link;
mod node;
mod params;
mod run;
mod switch;
#[cfg(test)]
mod tests;

pub use link::{Feed, FlitTransmitter};
pub use node::{Burst, Node, Taken};
pub use params::{Flit, Params};
pub use run::Slots;
pub use switch::Switch;

use unrack_units::Time;

/// Bytes of a cache line: what one message carries.
pub const LINE_BYTES: u64 = 64;

/// Message classes of CXL.mem. Each has its own credits and queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
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

impl Class {
    /// All classes, in the order of [`Class::index`].
    pub const ALL: [Class; CLASSES] = [Class::Req, Class::RwD, Class::Ndr, Class::Drs];

    /// Returns the position of the class in [`Class::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether messages of the class carry a line of data.
    pub const fn has_data(self) -> bool {
        matches!(self, Class::RwD | Class::Drs)
    }

    /// Returns the slots of 16 B that a message takes: a header, and four more for a line.
    pub const fn slots(self) -> u32 {
        if self.has_data() { 5 } else { 1 }
    }
}

/// One message of the link layer, or a run: several of one transfer that travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Transfer that the message belongs to; a number of the driver's choice.
    pub message: u32,
    pub src: u16,
    pub dst: u16,
    pub class: Class,
    /// True for a request with data that is answered with data.
    pub fetches: bool,
    /// Messages of the run; each has credits, buffers and slots of its own.
    pub count: u8,
    /// Time at which the last message of a run is where the first is.
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
    pub fn insert(&mut self, class: Class) {
        self.0 |= 1 << class.index();
    }
    /// Removes a class.
    pub fn remove(&mut self, class: Class) {
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
    pub fn contains(self, class: Class) -> bool {
        self.0 & (1 << class.index()) != 0
    }

    /// Returns the first class of the set at or after number `from`, wrapping around.
    fn next_from(self, from: usize) -> Option<Class> {
        let turned = (u32::from(self.0) | u32::from(self.0) << CLASSES) >> (from % CLASSES);
        (turned != 0).then(|| Class::ALL[(from + turned.trailing_zeros() as usize) % CLASSES])
    }
}
