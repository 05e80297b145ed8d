//! Queues of switch ports: the order in which packets leave, and the loss of packets when there is no room.

mod lossless;
mod pfabric;
mod strict;
mod trimming;

pub use lossless::Lossless;
pub use pfabric::SmallestFirst;
pub use strict::StrictPriority;
pub use trimming::Trimming;

use super::Packet;
use crate::fabric::buffer::Room;
use crate::fabric::slab::Slab;

/// Loss of a packet's payload, or of the whole packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub packet: u32,
    /// Payload lost, in bytes.
    pub bytes: u32,
    /// The whole packet is lost; if not, its header goes on.
    pub whole: bool,
}

/// Packets that wait at one port. Each queue gives [`Packet::rank`] a meaning of its own.
pub trait Queue: Clone {
    /// Whether the other end of the link may pause this port.
    const PAUSES: bool = false;

    /// Queues a packet at a port that is busy and has this room. Adds packets that are lost thereby to `losses`.
    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        room: Room,
    );
    /// Removes and returns the next packet to leave.
    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32>;
    /// Returns the bytes that wait.
    fn bytes(&self) -> u64;
    /// Returns whether no packet waits that may leave.
    fn is_empty(&self) -> bool;
    /// Returns whether a packet of this rank that finds the port free, and no packet that may leave, leaves at once.
    fn passes(&self, _rank: u32) -> bool {
        true
    }
    /// Returns whether data that finds `ahead` bytes ahead at this port is marked for congestion.
    fn marks(&mut self, _port: u32, _ahead: u64) -> bool {
        false
    }
    /// Pauses data, or lets it go on.
    fn pause(&mut self, _paused: bool) {}
}
