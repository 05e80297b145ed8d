//! Reassembly: segments of all subflows, put into the order of the data.

use crate::tcp::{self, Ack, Ranges, Segment};
use std::collections::BTreeMap;
use unrack_units::Time;

/// Receives the data of one connection.
///
/// | what happened | [`handle_segment`](Receiver::handle_segment) |
/// |---|---|
/// | what to do | [`poll_ack`](Receiver::poll_ack) |
/// | what is known | [`next`](Receiver::next) |
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

    /// Returns the next data segment expected: all below have been handed on in order.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes in a segment of a subflow that carries data segment `data`. Returns how many data segments are handed on
    /// now.
    pub fn handle_segment(
        &mut self,
        now: Time,
        subflow: u32,
        segment: Segment,
        data: u32,
        marked: bool,
    ) -> u32 {
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

    /// Returns the acknowledgement of a subflow; [`Receiver::next`] goes with it (RFC 8684 §3.3.2: the data ACK).
    pub fn poll_ack(&mut self, subflow: u32) -> Option<Ack> {
        self.subflows[subflow as usize].receiver.poll_ack()
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
