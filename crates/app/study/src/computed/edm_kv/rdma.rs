//! RoCEv2: frames over a store-and-forward switch, between stacks with the latencies of table 1.
//!
//! All queues are first in, first out in both directions, so the times of a frame follow from those of the previous one.

use super::super::edm_table1::{ROCE, over_the_mac, wire};
use super::access::{DRAM, RATE, READ, RecordAccess, StackLatency, UnloadedLatency, WINDOW, WRITE};
use std::collections::VecDeque;
use unrack_phy::mac::{FCS, GAP, MIN_FRAME};
use unrack_units::{Bytes, Time};

/// Bytes of headers: Ethernet 14, IPv4 20, UDP 8, base transport header 12, and the invariant CRC 4 (InfiniBand
/// specification 1.2.1, §9, and annex A17).
const HEADERS: usize = 58;
/// Bytes of the extended header of a request, and (in the next constant) of an answer (§9.3).
const RETH: usize = 16;
const AETH: usize = 4;
/// Characters of start, preamble and delimiter.
const PREAMBLE: usize = 8;

/// One direction of the path: two links and the switch between them.
#[derive(Debug, Clone, Copy, Default)]
struct RdmaDirection {
    free: [Time; 2],
}

impl RdmaDirection {
    /// Sends a frame with this payload. Returns the time at which it reaches the stack at the other end.
    fn carry(&mut self, at: Time, payload: usize) -> Time {
        let frame = (HEADERS + payload + FCS).max(MIN_FRAME + FCS) + PREAMBLE;
        let stored = self.free.iter_mut().fold(at, |at, free| {
            let sent = at.max(*free) + RATE.transmit(Bytes::new(frame as u64));
            *free = sent + RATE.transmit(Bytes::new(GAP as u64));
            sent
        });
        stored + one_way()
    }
}

/// Returns the latency of one direction without transmission, as in table 1.
fn one_way() -> Time {
    over_the_mac(ROCE) + wire(2)
}

/// Returns the payloads of a request and of its answer in bytes. Each read and each write is one packet, and a write gets an
/// acknowledgement as its answer.
fn payloads(is_read: bool) -> [usize; 2] {
    match is_read {
        true => [RETH, AETH + usize::from(READ)],
        false => [RETH + usize::from(WRITE), AETH],
    }
}

/// Returns the requests per second, with up to [`WINDOW`] requests in flight.
pub(super) fn rate(accesses: &[RecordAccess]) -> f64 {
    let [mut there, mut back] = [RdmaDirection::default(); 2];
    let mut answers = VecDeque::new();
    let mut last = Time::ZERO;
    for access in accesses {
        let now = if answers.len() < WINDOW { Time::ZERO } else { answers.pop_front().unwrap_or_default() };
        let [request, answer] = payloads(access.is_read);
        let asked = there.carry(now, request);
        last = back.carry(asked + DRAM, answer);
        answers.push_back(last);
    }
    accesses.len() as f64 / (last.as_ns_f64() / 1e9)
}

/// Returns the time that a request occupies the compute node's line, including the gap after it.
pub(super) fn up(is_read: bool) -> Time {
    let mut way = RdmaDirection::default();
    way.carry(Time::ZERO, payloads(is_read)[0]);
    way.free[0]
}

/// Returns the latency of a single request, without the latency of the memory itself.
pub(super) fn latency() -> StackLatency {
    let carry = |payload| RdmaDirection::default().carry(Time::ZERO, payload);
    let [[request, answer], [write, _]] = [true, false].map(payloads);
    StackLatency {
        first: UnloadedLatency { read: one_way() * 2, write: one_way() },
        whole: UnloadedLatency { read: carry(request) + carry(answer), write: carry(write) },
    }
}
