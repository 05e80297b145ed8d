//! CXL.mem: cache lines over links that never drop, because every sender holds credits for the
//! buffers of its receiver (CXL 3.x specification; baseline of EDM §4.3).
//!
//! | module | holds |
//! |---|---|
//! | [`Params`] | what can be set |
//! | [`Transmitter`] | the sending end of a link: credits per message class, flits and their slots |
//! | [`Switch`] | one first-in-first-out queue per input and class, round robin at each output |
//! | [`Node`] | host and memory device in one: requests out, answers back |
//!
//! A read of n lines is n requests (M2S Req), each answered with data (S2M DRS); a write is n requests
//! with data (M2S RwD), each answered without (S2M NDR). The four classes have separate credits and
//! queues, and the answers are always taken in by who asked for them: so answers drain, hence
//! requests drain, and nothing can lock up.
//!
//! Nothing here knows of congestion. A full memory node leaves its requests in the switch's input
//! queues, and what is behind them waits too, wherever it goes: head-of-line blocking follows from
//! the queues and credits alone.
//!
//! Departure: CXL.mem has no atomic with an answer; a read-modify-write is a request with data that is
//! answered with data.
//! Departure: the specification limits the messages of a class that start in one flit, and can pack
//! several headers of data in a slot. Here every message takes a header slot, wherever one is free.

mod link;
mod node;
mod params;
mod switch;
#[cfg(test)]
mod tests;

pub use link::{Feed, Transmitter};
pub use node::{Burst, Node, Taken};
pub use params::{Flit, Params};
pub use switch::Switch;

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

/// How many classes there are.
pub const CLASSES: usize = 4;

impl Class {
    pub const ALL: [Class; CLASSES] = [Class::Req, Class::RwD, Class::Ndr, Class::Drs];

    pub const fn index(self) -> usize {
        self as usize
    }

    pub const fn has_data(self) -> bool {
        matches!(self, Class::RwD | Class::Drs)
    }

    /// Slots of 16 B: a header, and four for a line.
    pub const fn slots(self) -> u32 {
        if self.has_data() { 5 } else { 1 }
    }
}

/// One message of the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Which transfer it belongs to; the driver's own number.
    pub message: u32,
    pub src: u16,
    pub dst: u16,
    pub class: Class,
    /// A request with data that is answered with data.
    pub fetches: bool,
}

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassSet(u8);

impl ClassSet {
    pub const NONE: ClassSet = ClassSet(0);
    pub const ALL: ClassSet = ClassSet(0b1111);

    pub fn insert(&mut self, class: Class) {
        self.0 |= 1 << class.index();
    }
    pub fn remove(&mut self, class: Class) {
        self.0 &= !(1 << class.index());
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn and(self, other: ClassSet) -> ClassSet {
        ClassSet(self.0 & other.0)
    }
    pub fn contains(self, class: Class) -> bool {
        self.0 & (1 << class.index()) != 0
    }

    /// The first class of the set at or after number `from`, around the end.
    fn next_from(self, from: usize) -> Option<Class> {
        let turned = (u32::from(self.0) | u32::from(self.0) << CLASSES) >> (from % CLASSES);
        (turned != 0).then(|| Class::ALL[(from + turned.trailing_zeros() as usize) % CLASSES])
    }
}
