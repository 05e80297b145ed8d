//! Views of a run from inside. They are collected during the run if requested.
//!
//! | question | view |
//! |---|---|
//! | how busy links were and how long their queues were, over time | [`Views::links`] |
//! | which packets left, in order of time; the same as bytes | [`Views::packets`]; [`wire`] |
//! | where one message spent its time | [`Views::journal`], followed by [`explain`] |
//! | how long the longest queue of each port was, and how many packets of each message were held out of order at most | [`Views::peaks`] |
//!
//! A watched run gives the same results as an unwatched one.

mod explain;
mod journal;
mod links;
mod losses;
mod packets;
mod peaks;
pub mod wire;

pub use explain::{Explanation, Period, TimeSpent, explain};
pub use journal::Journal;
pub use links::{LinkSample, LinkSamples};
pub use packets::Packets;
pub use peaks::Peaks;

use unrack_engine::events::{Hop, LinkId, ObservedPacket, Observer, WaitReason};
use unrack_engine::topology::{LinkEnd, Topology};
use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// Views that are collected during a run. By default, there are none.
#[derive(Default)]
pub struct Views<'a> {
    pub links: Option<LinkSamples>,
    pub packets: Option<Packets<'a>>,
    pub journal: Option<Journal>,
    pub peaks: Option<Peaks>,
}

/// Selection of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Only {
    #[default]
    All,
    /// Packets of one message.
    Message(MessageId),
    /// Packets over the link of one node, in both directions.
    Node(NodeId),
    /// Packets that leave through one switch port.
    Port(u32),
}

impl Only {
    /// Returns whether this selection contains the packet of a hop.
    pub fn takes(self, hop: &Hop, topology: &Topology) -> bool {
        match (self, hop.link) {
            (Only::All, _) => true,
            (Only::Message(id), _) => hop.message == Some(id),
            (Only::Node(node), LinkId::Host(src)) => node == src,
            (Only::Node(node), LinkId::Port(port)) => topology.end(port) == LinkEnd::Node(node),
            (Only::Port(port), link) => link == LinkId::Port(port),
        }
    }
}

impl Observer for Views<'_> {
    const HOPS: bool = true;

    fn submitted(&mut self, id: MessageId, message: &Message, now: Time) {
        self.packets.iter_mut().for_each(|packets| packets.submitted(message));
        self.journal.iter_mut().for_each(|journal| journal.submitted(id, message, now));
    }
    fn completed(&mut self, id: MessageId, _message: &Message, now: Time) {
        self.journal.iter_mut().for_each(|journal| journal.completed(id, now));
        self.peaks.iter_mut().for_each(|peaks| peaks.completed(id));
    }
    fn lost(&mut self, id: MessageId, packet: &ObservedPacket, now: Time) {
        self.journal.iter_mut().for_each(|journal| journal.note_lost(id, packet, now));
    }
    fn queued(&mut self, port: u32, bytes: u64, now: Time) {
        self.links.iter_mut().for_each(|links| links.queued(port, bytes, now));
        self.peaks.iter_mut().for_each(|peaks| peaks.queued(port, bytes));
    }
    fn hop(&mut self, hop: &Hop, now: Time) {
        self.links.iter_mut().for_each(|links| links.hop(hop));
        self.packets.iter_mut().for_each(|packets| packets.hop(hop, now));
        self.journal.iter_mut().for_each(|journal| journal.hop(hop));
        self.peaks.iter_mut().for_each(|peaks| peaks.hop(hop));
    }
    fn waits(&mut self, id: MessageId, wait: WaitReason, now: Time) {
        self.journal.iter_mut().for_each(|journal| journal.waits(id, wait, now));
    }
}
