//! Reassembly: the segments of all subflows are put into the order of the data.

use super::Dss;
use crate::tcp::{self, Ack, Reassembly, ReceivingEnd, Segment};
use std::collections::BTreeMap;
use unrack_units::Time;

/// Receives the data of one connection: see [`ReceivingEnd`].
#[derive(Debug, Clone)]
pub struct Receiver {
    subflows: Vec<Subflow>,
    /// Data segments that have been taken from their subflows.
    data: Reassembly,
}

#[derive(Debug, Clone)]
struct Subflow {
    receiver: tcp::Receiver,
    /// Data segments that arrived out of order, by their number in the subflow.
    early: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Creates a receiver that acknowledges each segment.
    pub fn new(subflows: u32) -> Receiver {
        let subflow = Subflow { receiver: tcp::Receiver::new(1, Time::ZERO), early: BTreeMap::new() };
        Receiver { subflows: vec![subflow; subflows as usize], data: Reassembly::default() }
    }
}

impl ReceivingEnd for Receiver {
    type Signal = Dss;

    fn next(&self) -> u32 {
        self.data.next()
    }

    fn handle_segment(&mut self, now: Time, segment: Segment, signal: Dss, marked: bool) -> u32 {
        let Dss { subflow, data } = signal;
        let Subflow { receiver, early } = &mut self.subflows[subflow as usize];
        let before = self.data.next();
        let in_turn = receiver.next();
        receiver.handle_segment(now, segment, marked);
        // Data is taken from a subflow in the order of the subflow, as in Linux.
        if segment.number == in_turn {
            let mut reached = data;
            loop {
                self.data.add(reached);
                let first = early.first_entry().filter(|first| *first.key() < receiver.next());
                let Some(first) = first else { break };
                reached = first.remove();
            }
        } else if segment.number > in_turn {
            early.insert(segment.number, data);
        }
        self.data.next() - before
    }

    fn poll_ack(&mut self, subflow: u32) -> Option<(Ack, Dss)> {
        let ack = self.subflows[subflow as usize].receiver.poll_ack()?;
        // RFC 8684 §3.3.2: the data ACK.
        Some((ack, Dss { subflow, data: self.data.next() }))
    }
}
