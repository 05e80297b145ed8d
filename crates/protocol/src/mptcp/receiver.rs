//! Reassembly: segments of all subflows, put into the order of the data.

use super::Dss;
use crate::tcp::{self, Ack, Ranges, ReceivingEnd, Segment};
use std::collections::BTreeMap;
use unrack_units::Time;

/// Receives the data of one connection: see [`ReceivingEnd`].
#[derive(Debug, Clone)]
pub struct Receiver {
    subflows: Vec<Subflow>,
    /// Next data segment to hand on: all below have been.
    next: u32,
    /// Data segments that came too early.
    beyond: Ranges,
}

#[derive(Debug, Clone)]
struct Subflow {
    receiver: tcp::Receiver,
    /// Data of segments that arrived out of order, by the subflow's own number.
    early: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Creates a receiver that acknowledges each segment.
    pub fn new(subflows: u32) -> Receiver {
        let subflow = Subflow { receiver: tcp::Receiver::new(1, Time::ZERO), early: BTreeMap::new() };
        Receiver { subflows: vec![subflow; subflows as usize], next: 0, beyond: Ranges::default() }
    }
}

impl ReceivingEnd for Receiver {
    type Signal = Dss;

    fn next(&self) -> u32 {
        self.next
    }

    fn handle_segment(&mut self, now: Time, segment: Segment, signal: Dss, marked: bool) -> u32 {
        let Dss { subflow, data } = signal;
        let Subflow { receiver, early } = &mut self.subflows[subflow as usize];
        let before = self.next;
        let in_turn = receiver.next();
        receiver.handle_segment(now, segment, marked);
        // As in Linux, data leaves a subflow in the subflow's order.
        if segment.number == in_turn {
            let mut reached = data;
            loop {
                reassemble(&mut self.next, &mut self.beyond, reached);
                let first = early.first_entry().filter(|first| *first.key() < receiver.next());
                let Some(first) = first else { break };
                reached = first.remove();
            }
        } else if segment.number > in_turn {
            early.insert(segment.number, data);
        }
        self.next - before
    }

    fn poll_ack(&mut self, subflow: u32) -> Option<(Ack, Dss)> {
        let ack = self.subflows[subflow as usize].receiver.poll_ack()?;
        // RFC 8684 §3.3.2: the data ACK.
        Some((ack, Dss { subflow, data: self.next }))
    }
}

/// Records that a data segment has left its subflow, in a stream that has all below `next` and some beyond.
fn reassemble(next: &mut u32, beyond: &mut Ranges, data: u32) {
    if data > *next {
        beyond.insert(data..data + 1);
    } else if data == *next {
        *next += 1;
        if !beyond.is_empty() {
            *next = beyond.gap_from(*next);
            beyond.remove_below(*next);
        }
    }
}
