//! A packet on its way.

use unrack_protocol::tcp::{Ack, Segment};
use unrack_units::Time;
use unrack_workload::NodeId;

#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<S> {
    pub stream: u32,
    /// Words about the stream, beside the header.
    pub signal: S,
    pub to: NodeId,
    /// Switch port that the packet is on its way to, or in.
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

/// Packet that has crossed to another part of a split run: the time at which it is ready there, the port that it came
/// from, its stream, and the stream's hash.
pub struct Parcel<S = ()> {
    pub(super) at: Time,
    pub(super) by: u32,
    pub(super) name: u32,
    pub(super) hash: u32,
    pub(super) packet: Packet<S>,
}
