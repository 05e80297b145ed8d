//! A port whose data can be paused by the receiver at the far end of the link (priority flow control, IEEE 802.1Q clause 36). Control
//! packets form a separate class, which is sent first and never paused.

use super::{Loss, Queue};
use crate::fabric::buffer::QueueRoom;
use crate::fabric::packet::Packet;
use crate::fabric::slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use unrack_basis::mix;
use unrack_protocol::dcqcn::Params;

/// Queue of two ranks: 0 is control, and all others are data, which are marked as in DCQCN. No packet is dropped here, because pauses
/// ensure that there is room. Whether the n-th packet with payload at port p is marked depends on a pseudorandom number in 0..1: the upper
/// 53 bits of `mix(mix(seed ^ p) ^ n)`.
#[derive(Clone)]
pub struct Lossless {
    control: VecDeque<u32>,
    data: VecDeque<u32>,
    bytes: u64,
    paused: bool,
    params: Arc<Params>,
    seed: u64,
    /// Number of packets with payload so far, each of which could have been marked.
    draws: u64,
}

impl Lossless {
    pub fn new(params: Params, seed: u64) -> Lossless {
        let (control, data, params) = (VecDeque::new(), VecDeque::new(), Arc::new(params));
        Lossless { control, data, bytes: 0, paused: false, params, seed, draws: 0 }
    }
}

impl Queue for Lossless {
    const PAUSES: bool = true;

    fn offer<H: Copy>(
        &mut self,
        packet: u32,
        packets: &mut Slab<Packet<H>>,
        _losses: &mut Vec<Loss>,
        _room: QueueRoom,
    ) {
        self.bytes += u64::from(packets[packet].wire);
        if packets[packet].rank == 0 { &mut self.control } else { &mut self.data }.push_back(packet);
    }

    fn take<H: Copy>(&mut self, packets: &Slab<Packet<H>>) -> Option<u32> {
        let packet = match self.control.pop_front() {
            None if self.paused => None,
            None => self.data.pop_front(),
            control => control,
        }?;
        self.bytes -= u64::from(packets[packet].wire);
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_empty(&self) -> bool {
        self.control.is_empty() && (self.paused || self.data.is_empty())
    }

    fn passes(&self, rank: u32) -> bool {
        rank == 0 || !self.paused
    }

    fn marks(&mut self, port: u32, ahead: u64) -> bool {
        self.draws += 1;
        let draw = mix(mix(self.seed ^ u64::from(port)) ^ self.draws);
        self.params.marks(ahead, (draw >> 11) as f64 / (1u64 << 53) as f64)
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }
}
