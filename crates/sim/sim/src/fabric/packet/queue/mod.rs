//! Queues of switch ports: the order in which packets leave, and the packets that are lost when there is no room.

mod lossless;
mod pfabric;
mod strict;
mod trimming;

pub use lossless::Lossless;
pub use pfabric::SmallestFirst;
pub use strict::StrictPriority;
pub use trimming::Trimming;

use super::Packet;
use crate::fabric::buffer::QueueRoom;
use crate::fabric::slab::Slab;

/// Loss of a packet, or of its payload only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub packet: u32,
    /// Payload lost, in bytes.
    pub bytes: u32,
    /// Whether the whole packet is lost. If not, its header is forwarded.
    pub whole: bool,
}

/// Packets that wait at one port. Each implementation defines the meaning of [`Packet::rank`].
pub trait Queue: Clone {
    /// Whether the receiver at the far end of the link may pause this port.
    const PAUSES: bool = false;

    /// Queues a packet at a busy port with this room. Adds the packets that are lost as a result to `losses`.
    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        room: QueueRoom,
    );
    /// Removes and returns the next packet to leave.
    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32>;
    /// Returns the bytes that wait.
    fn bytes(&self) -> u64;
    /// Returns whether the queue holds no packet that may leave now.
    fn is_empty(&self) -> bool;
    /// Returns whether a packet of this rank leaves at once, if it finds the port free and no other packet that may leave.
    fn passes(&self, _rank: u32) -> bool {
        true
    }
    /// Returns whether a data packet that finds `ahead` bytes ahead of it at this port is marked for congestion.
    fn marks(&mut self, _port: u32, _ahead: u64) -> bool {
        false
    }
    /// Pauses data, or resumes it.
    fn pause(&mut self, _paused: bool) {}
}
