//! A packet on its way through the network.

use unrack_protocol::tcp::{Ack, Segment};
use unrack_units::Time;
use unrack_workload::NodeId;

#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<S> {
    pub stream: u32,
    /// Information about the stream that the packet carries in addition to its header, for example its subflow.
    pub signal: S,
    pub to: NodeId,
    /// Switch port at which the packet waits, or which it is on its way to.
    pub port: u32,
    /// Hash that selects one of several equal-cost paths.
    pub hash: u32,
    pub wire: u32,
    pub payload: u32,
    pub marked: bool,
    pub body: Body,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(Segment),
    Ack(Ack),
}

/// Packet that has crossed to another part of a split run: the time at which it is due there, the port that it came from, the name and the
/// hash of its stream, and the packet.
pub struct Parcel<S = ()> {
    pub(super) at: Time,
    pub(super) by: u32,
    pub(super) name: u32,
    pub(super) hash: u32,
    pub(super) packet: Packet<S>,
}
