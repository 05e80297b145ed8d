//! What a switch port does with packets that must wait: which leaves next, and which is lost when there
//! is no room.

mod lossless;
mod pfabric;
mod strict;
mod trimming;

pub(in crate::fabric) use lossless::Lossless;
pub(in crate::fabric) use pfabric::SmallestFirst;
pub(in crate::fabric) use strict::StrictPriority;
pub(in crate::fabric) use trimming::Trimming;

use super::Packet;
use crate::fabric::buffer::Room;
use crate::fabric::slab::Slab;

/// A packet that lost its payload, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) struct Loss {
    pub packet: u32,
    /// Payload.
    pub bytes: u32,
    /// Nothing is left of it; else its header goes on.
    pub whole: bool,
}

/// The packets that wait at one port. [`Packet::rank`] means what the queue makes of it.
pub(in crate::fabric) trait Queue: Clone {
    /// Whether the other end of its link may have it pause.
    const PAUSES: bool = false;

    /// A packet comes to a port that is busy and has this room. What that costs is added to `losses`.
    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        losses: &mut Vec<Loss>,
        room: Room,
    );
    /// The next to leave.
    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32>;
    /// Bytes that wait.
    fn bytes(&self) -> u64;
    /// Nothing waits that may leave.
    fn is_empty(&self) -> bool;
    /// Whether a packet of this rank that finds the port free, and nothing that may leave, leaves at once.
    fn passes(&self, _rank: u32) -> bool {
        true
    }
    /// Whether data that finds so much ahead at this port is marked for congestion.
    fn marks(&mut self, _port: u32, _ahead: u64) -> bool {
        false
    }
    /// Data is to wait from now on, or no longer.
    fn pause(&mut self, _paused: bool) {}
}
