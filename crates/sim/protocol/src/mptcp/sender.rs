//! Sending half of a connection, which chooses a subflow for each data segment.

use super::coupled::{Coupled, increase};
use super::{Params, Scheduler, Subflows};
use crate::tcp::{self, Ack, Segment, SendingEnd, StreamSignal, SubflowSet, Timeouts};
use std::collections::VecDeque;
use unrack_units::Time;

/// Sender of one stream over several subflows. It sends each data segment again until the receiver has acknowledged it;
/// see [`SendingEnd`].
#[derive(Debug, Clone)]
pub struct Sender {
    params: Params,
    subflows: Vec<Subflow>,
    /// Number of data segments in the stream. `given` is the number of data segments that were assigned to a subflow,
    /// and `acknowledged` the number of the first data segment that is not known to have arrived.
    total: u32,
    given: u32,
    acknowledged: u32,
    /// Stranded data segments: those that a subflow had in flight when it timed out, each with the number of that
    /// subflow. Another subflow should send them too.
    stranded: VecDeque<(u32, u32)>,
    /// Stale subflows: those that have timed out, and for which no acknowledgement of further segments has arrived
    /// since.
    stale: Subflows,
    /// Subflow whose turn is next in round robin.
    turn: u32,
    retransmissions: u32,
}

#[derive(Debug, Clone)]
struct Subflow {
    sender: tcp::Sender<Coupled>,
    /// Number of the data segment that each segment of the subflow carries, indexed by the subflow's number of the
    /// segment.
    carries: Vec<u32>,
}

/// State that a connection keeps between the end of one stream and the start of the next one.
#[derive(Debug, Clone)]
pub struct Resting {
    subflows: Vec<tcp::Resting<Coupled>>,
    turn: u32,
}

/// Data sequence signal (RFC 8684 §3.3) of a packet, and the subflow that carries the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dss {
    pub subflow: u32,
    /// In a segment, the number of the data segment that the segment carries (the mapping). In an acknowledgement, the
    /// number of the next data segment that the receiver expects (the data ACK).
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
    /// Creates the sender of the first stream of a new connection. The stream has `segments` data segments.
    pub fn new(params: &Params, subflows: u32, timeouts: Timeouts, segments: u32) -> Sender {
        let sender = tcp::Sender::new(Coupled::new(params.initial_window), timeouts, 0);
        Sender::on(params, std::iter::repeat_n(sender, subflows as usize), 0, segments)
    }

    /// Creates the sender of the next stream of a connection that kept the state `resting` since its previous stream.
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

    /// Returns whether the sender may give new data to a subflow. It may not if the subflow is stale, unless all
    /// subflows are stale.
    fn is_sound(&self, subflow: u32) -> bool {
        !self.stale.has(subflow) || self.stale == self.subflows()
    }

    /// Records that all data segments before `data_next` have arrived. Any packet from the receiver may report this.
    fn handle_data_ack(&mut self, data_next: u32) {
        // RFC 8684 §3.3.2: an acknowledgement of data that was not sent is invalid.
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

    /// Returns the next data segment to give to a subflow; stranded data segments come first. For a stranded data
    /// segment, also returns the stale subflow that has it in flight and therefore should not take it again.
    fn next_data(&mut self) -> Option<(u32, Option<u32>)> {
        while let Some((data, from)) = self.stranded.front().copied() {
            if data >= self.acknowledged && self.stale.has(from) {
                return Some((data, Some(from)));
            }
            self.stranded.pop_front();
        }
        (self.given < self.total).then_some((self.given, None))
    }

    /// Returns the subflow that the scheduler ([`Params::scheduler`]) chooses among the subflows in `open` that may
    /// take new data and whose windows have room.
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

    /// Returns the state of the connection for its next stream. Segments of this stream that are still in flight count
    /// as arrived. Returns `None` if a subflow is stale: it has timed out, and no acknowledgement of further segments
    /// has arrived for it since.
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
    /// Returns the number of segments that a subflow sent again after it had sent them before.
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
        // The set of stale subflows decides which data is stranded and which subflows may take it. Therefore any
        // subflow may now have a segment to send.
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
            // The expired timer was that of a probe, not the retransmission timer.
            return;
        }
        // RFC 8684 §3.3.6: another subflow may also send the segments in flight. They become stranded only once per
        // stale period.
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
