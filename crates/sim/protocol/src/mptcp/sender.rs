//! Sending half of a connection: the choice of a subflow for each segment.

use super::coupled::{Coupled, increase};
use super::{Params, Scheduler, Subflows};
use crate::tcp::{self, Ack, Segment, SendingEnd, StreamSignal, SubflowSet, Timeouts};
use std::collections::VecDeque;
use unrack_units::Time;

/// Sends the segments of one stream by several subflows, and repeats each until it is acknowledged; see
/// [`SendingEnd`].
#[derive(Debug, Clone)]
pub struct Sender {
    params: Params,
    subflows: Vec<Subflow>,
    /// Numbers of data segments: in the stream, given to a subflow, and known to have arrived.
    total: u32,
    given: u32,
    acknowledged: u32,
    /// Data segments that a timed-out subflow has in flight, each with that subflow. Another subflow should send them.
    stranded: VecDeque<(u32, u32)>,
    /// Subflows that timed out and from which no acknowledgement has come since.
    stale: Subflows,
    /// Next subflow in round robin.
    turn: u32,
    retransmissions: u32,
}

#[derive(Debug, Clone)]
struct Subflow {
    sender: tcp::Sender<Coupled>,
    /// Data segment that each of the subflow's segments carries.
    carries: Vec<u32>,
}

/// State of a connection between one stream and the next.
#[derive(Debug, Clone)]
pub struct Resting {
    subflows: Vec<tcp::Resting<Coupled>>,
    turn: u32,
}

/// Data sequence signal (RFC 8684 §3.3), and the subflow of the packet that contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dss {
    pub subflow: u32,
    /// In a segment, the data segment that it carries (the mapping); in an acknowledgement, the next data segment
    /// expected (the data ACK).
    pub data: u32,
}

impl StreamSignal for Dss {
    fn subflow(self) -> u32 {
        self.subflow
    }
    fn in_stream(self, _: u32) -> u32 {
        self.data
    }
}

impl Sender {
    /// Creates the sender of a new connection's first stream.
    pub fn new(params: &Params, subflows: u32, timeouts: Timeouts, segments: u32) -> Sender {
        let sender = tcp::Sender::new(Coupled::new(params.initial_window), timeouts, 0);
        Sender::on(params, std::iter::repeat_n(sender, subflows as usize), 0, segments)
    }

    /// Creates the sender of the next stream of a connection.
    pub fn resume(params: &Params, resting: Resting, now: Time, segments: u32) -> Sender {
        let Resting { subflows, turn } = resting;
        let subflows = subflows.into_iter().map(|subflow| subflow.resume(now, 0));
        Sender::on(params, subflows, turn, segments)
    }

    fn on(
        params: &Params,
        subflows: impl Iterator<Item = tcp::Sender<Coupled>>,
        turn: u32,
        segments: u32,
    ) -> Sender {
        Sender {
            params: params.clone(),
            subflows: subflows.map(|sender| Subflow { sender, carries: Vec::new() }).collect(),
            total: segments,
            given: 0,
            acknowledged: 0,
            stranded: VecDeque::new(),
            stale: Subflows::NONE,
            turn,
            retransmissions: 0,
        }
    }

    /// Returns whether a subflow may take new data. A stale subflow may not, unless all are stale.
    fn is_sound(&self, subflow: u32) -> bool {
        !self.stale.has(subflow) || self.stale == self.subflows()
    }

    /// Records that all data below `data_next` has arrived. Any packet from the other end may report this.
    fn handle_data_ack(&mut self, data_next: u32) {
        // RFC 8684 §3.3.2: data that was not sent cannot be acknowledged.
        if data_next <= self.given {
            self.acknowledged = self.acknowledged.max(data_next);
        }
    }

    fn transmit(&mut self, now: Time, subflow: u32) -> Option<(Segment, Dss)> {
        let place = &mut self.subflows[subflow as usize];
        let before = place.sender.retransmissions();
        let segment = place.sender.poll_transmit(now)?;
        self.retransmissions += place.sender.retransmissions() - before;
        Some((segment, Dss { subflow, data: place.carries[segment.number as usize] }))
    }

    /// Returns the next data segment, stranded ones first. For a stranded one, also returns the subflow that should
    /// not take it.
    fn next_data(&mut self) -> Option<(u32, Option<u32>)> {
        while let Some((data, from)) = self.stranded.front().copied() {
            if data >= self.acknowledged && self.stale.has(from) {
                return Some((data, Some(from)));
            }
            self.stranded.pop_front();
        }
        (self.given < self.total).then_some((self.given, None))
    }

    /// Returns the subflow that the scheduler chooses among those of `open` that may send.
    fn choose(&mut self, open: Subflows) -> Option<u32> {
        let count = self.subflows.len() as u32;
        let (scheduler, turn) = (self.params.scheduler, self.turn);
        let candidates = open.filter_map(|number| {
            let may = self.is_sound(number) && self.subflows[number as usize].sender.has_room();
            may.then(|| (number, self.subflows[number as usize].sender.control().rtt()))
        });
        let chosen = match scheduler {
            Scheduler::MinRtt => candidates.min_by(|a, b| a.1.total_cmp(&b.1)),
            Scheduler::RoundRobin => candidates.min_by_key(|(number, _)| (number + count - turn) % count),
        };
        let (number, _) = chosen?;
        self.turn = (number + 1) % count;
        Some(number)
    }
}

impl SendingEnd for Sender {
    type Subflows = Subflows;
    type Signal = Dss;
    type Resting = Resting;

    /// Returns the connection for another stream. Segments of this stream that are in flight count as arrived. Returns
    /// `None` if a subflow timed out and no acknowledgement has come from it since.
    fn rest(&self) -> Option<Resting> {
        let subflows = || self.subflows.iter().map(|subflow| subflow.sender.rest()).collect();
        self.stale.is_empty().then(|| Resting { subflows: subflows(), turn: self.turn })
    }

    /// Returns whether all data has arrived, or the sender has given up.
    fn is_done(&self) -> bool {
        self.acknowledged == self.total || self.has_given_up()
    }
    /// Returns whether every subflow has given up.
    fn has_given_up(&self) -> bool {
        self.subflows.iter().all(|subflow| subflow.sender.has_given_up())
    }
    /// Returns the number of segments that were sent again by the same subflow.
    fn retransmissions(&self) -> u32 {
        self.retransmissions
    }

    fn subflows(&self) -> Subflows {
        Subflows::first(self.subflows.len() as u32)
    }

    fn wants(&mut self, subflow: u32) -> bool {
        if self.is_done() {
            return false;
        }
        let waits = self.next_data().is_some_and(|(_, not_by)| not_by != Some(subflow));
        let is_sound = self.is_sound(subflow);
        let place = &mut self.subflows[subflow as usize];
        place.sender.is_ready() || waits && is_sound && place.sender.has_room()
    }

    fn handle_answer(&mut self, now: Time) {
        self.handle_data_ack(self.total);
        for subflow in self.subflows().without(self.stale) {
            let ack = self.subflows[subflow as usize].sender.acknowledged_by_answer();
            self.handle_ack(now, &ack, Dss { subflow, data: self.total });
        }
    }

    fn handle_ack(&mut self, now: Time, ack: &Ack, signal: Dss) -> Subflows {
        let Dss { subflow: number, data } = signal;
        self.handle_data_ack(data);
        let control = self.subflows[number as usize].sender.control();
        if !control.is_in_slow_start() {
            let all = self.subflows.iter().map(|subflow| subflow.sender.control());
            let growth = increase(self.params.coupling, all, control);
            self.subflows[number as usize].sender.control_mut().set_increase(growth);
        }
        let sender = &mut self.subflows[number as usize].sender;
        let before = sender.acknowledged();
        sender.handle_ack(now, ack);
        if self.stale.is_empty() {
            return Subflows::only(number);
        }
        // The stale subflows decide which data is stranded and which subflow may take it, so all subflows may have
        // something to send.
        self.stale.set(number, self.stale.has(number) && sender.acknowledged() == before);
        self.subflows()
    }

    fn handle_timeout(&mut self, now: Time, number: u32) {
        let subflow = &mut self.subflows[number as usize];
        if subflow.sender.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        let before = subflow.sender.timeouts();
        subflow.sender.handle_timeout(now);
        if subflow.sender.timeouts() == before && !subflow.sender.has_given_up() {
            // The timeout was that of a probe.
            return;
        }
        // RFC 8684 §3.3.6: the segments in flight may also be sent by another subflow, but only once.
        if !self.stale.has(number) {
            self.stale.set(number, true);
            let under_way = subflow.sender.acknowledged() as usize..;
            self.stranded.extend(subflow.carries[under_way].iter().map(|data| (*data, number)));
        }
    }

    fn poll_transmit(&mut self, now: Time, mut open: Subflows) -> Option<(Segment, Dss)> {
        if self.is_done() {
            return None;
        }
        let ready = open.into_iter().find(|number| self.subflows[*number as usize].sender.is_ready());
        if let Some(subflow) = ready {
            return self.transmit(now, subflow);
        }
        let (data, not_by) = self.next_data()?;
        not_by.into_iter().for_each(|number| open.set(number, false));
        let subflow = self.choose(open)?;
        match not_by {
            Some(_) => drop(self.stranded.pop_front()),
            None => self.given += 1,
        }
        let place = &mut self.subflows[subflow as usize];
        place.carries.push(data);
        place.sender.push(1);
        self.transmit(now, subflow)
    }

    fn poll_timeout(&self, subflow: u32) -> Option<Time> {
        if self.is_done() { None } else { self.subflows[subflow as usize].sender.poll_timeout() }
    }
}
