//! Receiving half of a connection: it puts the segments of all subflows into the order of the data.

use super::Dss;
use crate::tcp::{self, Ack, Reassembly, ReceivingEnd, Segment};
use std::collections::BTreeMap;
use unrack_units::Time;

/// Receiver of the data of one connection, over all its subflows: see [`ReceivingEnd`].
#[derive(Debug, Clone)]
pub struct Receiver {
    subflows: Vec<Subflow>,
    /// Data segments that the receiver has taken from the subflows on which they arrived.
    data: Reassembly,
}

#[derive(Debug, Clone)]
struct Subflow {
    receiver: tcp::Receiver,
    /// Data segments that arrived out of order within the subflow, indexed by the subflow's number of the segment that
    /// carried them.
    early: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Creates the receiver of a connection with `subflows` subflows. It acknowledges each segment.
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
        // The receiver takes data from a subflow only in the order of that subflow, as Linux does.
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
