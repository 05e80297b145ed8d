//! EDM's scheduler in the switch (§3.1): it matches sources to destinations by priority-based parallel iterative
//! matching.
//!
//! This core has no clock and no I/O. Its driver
//! - reports demands in the order of their times: [`Scheduler::handle_demand`],
//! - asks at what time the core has to run next: [`Scheduler::poll_at`],
//! - runs the core at that time: [`Scheduler::run`], which does at most one iteration and returns its grants.
//!
//! One iteration takes three clock cycles (§3.1.2). First, every free destination requests one message: among the
//! messages for that destination whose source is free, the one with the highest priority. Then every source that has
//! received requests grants the request with the highest priority. Finally, the ports of this source and its
//! destination become busy. An iteration that starts at t issues its grants at t + 3 cycles. A destination whose
//! request was not granted tries again in the next iteration.
//!
//! §3.1.1 (7): a port that was granted l bytes at t' gets its next grant at t' + l/B if a message waits, where B is the
//! rate of the link. Iterations do not start at exactly these times. Therefore, an iteration that starts at t matches
//! all ports that will be free before the *next* iteration issues its grants, which is at t + 6 cycles. The scheduler
//! delays each grant until the ports of its source and destination are free. Otherwise a port that becomes free would
//! have to wait for the next iteration. For example, a 64 B chunk at 100 Gb/s would occupy a port for 6 ns instead of
//! 5.12 ns, so that the switch could not carry a load of 0.9.
//!
//! Links also carry control messages, for which there are no grants: notifications and requests to the switch, and
//! grants and requests from the switch (§3.1.4: 6 % overhead for messages of 64 B). Rule (7) of §3.1.1 reserves no time
//! for control messages. If a link has too little idle time for them, the link falls behind the schedule of its grants.
//! A link without idle time would fall behind without bound, while its data queues in the switch.
//!
//! Departure: if a link is behind this schedule by more than the time of one chunk, its port stays busy until the link
//! has caught up. Decision 4 (`docs/decisions`) explains why the limit is one chunk and not zero, and what effect the
//! limit has.
//!
//! Hardware starts an iteration every three cycles even if there is no pair to match. This core starts an iteration
//! only when there is a pair to match and the previous iteration has ended. It therefore does not model that a demand
//! in an idle switch has to wait for the start of the next iteration, which takes less than one iteration (1 ns at 3
//! GHz). The core processes only ports whose state has changed, and finds eligible messages with the same rows of bits
//! as the hardware.

use super::bits::{PortSet, PortSets, ports_of};
use super::demands::{Demands, Key, QueuePosition};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_units::Time;

/// Number of cycles of the scheduler's clock that one matching iteration takes (§3.1.2).
pub const ITERATION_CYCLES: u64 = 3;

/// Order in which the scheduler grants messages (§3.1.1 (4)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantPolicy {
    /// First come, first served, by the arrival of the demand at the scheduler. Best for light-tailed message sizes.
    Fcfs,
    /// The message with the fewest bytes left first; among equals, first come, first served. Best for heavy-tailed
    /// message sizes. This policy is the same as `Fcfs` if every message has the size of one chunk.
    Srpt,
}

/// Parameters of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerConfig {
    pub ports: u32,
    /// Maximum number of bytes that one grant allows (c in §3.1.1).
    pub chunk: u32,
    pub policy: GrantPolicy,
    /// Whether the scheduler grants the messages of one pair of source and destination in the order of their demands
    /// (§3.1.1 (5)). If not, `policy` also decides the order of messages within a pair.
    pub pairs_in_order: bool,
    /// Length of one iteration: three cycles of the scheduler's clock.
    pub iteration: Time,
    /// Time that one 8-byte block takes on a link. The l/B of §3.1.1 (7) is this time multiplied by the number of
    /// blocks in l bytes.
    pub block: Time,
    /// Time that the framing of one chunk takes on a link. The rule §3.1.1 (7) does not include this time.
    pub framing: Time,
    /// Time that one notification or grant takes on a link.
    pub control: Time,
}

/// Demand of one message: bytes that wait to be sent from `src` to `dst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub bytes: u64,
    /// Number that the driver has given to the message. Each grant of the message contains it.
    pub token: u32,
    /// If a request of `dst`, for example a read, implies this demand, the time that this request takes on a link. The
    /// switch forwards the request to `src` as the first grant. Zero if `src` has announced the message by a
    /// notification.
    pub request: Time,
}

/// Permission for `src` to send the next `bytes` bytes of a message to `dst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub src: u32,
    pub dst: u32,
    pub token: u32,
    pub bytes: u32,
    /// Whether this is the first grant of the message. If the message answers a request, the switch forwards the
    /// request instead of sending this grant.
    pub first: bool,
    /// Whether this is the last grant of the message, after which no bytes of the message are left to grant.
    pub last: bool,
    /// Time at which the switch issues the grant.
    pub at: Time,
}

/// Scheduler of one switch.
#[derive(Debug, Clone)]
pub struct Scheduler {
    config: SchedulerConfig,
    demands: Demands,
    /// Ports that an iteration may match, as sources and as destinations.
    free_src: PortSet,
    free_dst: PortSet,
    /// For each destination, the sources that have a message for it. `wants_src` has the reverse: for each source, the
    /// destinations of its messages.
    wants_dst: PortSets,
    wants_src: PortSets,
    /// Number of pairs of source and destination that have a message.
    waiting: usize,
    /// Destinations that may have a message to request in the next iteration.
    candidates: PortSet,
    ports: Vec<PortTimes>,
    /// Maximum time by which control messages may put a link behind the schedule of its grants. It is the time of one
    /// chunk on the link.
    slack: Time,
    /// For each busy port, the time from which on an iteration may match the port again, unless control messages have
    /// delayed the port in the meantime.
    releases: BinaryHeap<Reverse<(Time, PortRole, u32)>>,
    pipeline_free: Time,
    /// For each source, the request with the highest priority that it has received in the current iteration, as
    /// (priority, dst).
    requests: Vec<(Key, u32)>,
    requested: Vec<u32>,
    /// Destinations whose request was not granted in the current iteration, because another request had a higher
    /// priority.
    refused: Vec<u32>,
}

/// Role of a port in a transfer of data: its node sends as a source, or receives as a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortRole {
    Src,
    Dst,
}

/// Traffic of the two directions of one port.
#[derive(Debug, Clone, Copy, Default)]
struct PortTimes {
    as_src: DirectionTraffic,
    as_dst: DirectionTraffic,
}

/// Times until which one direction of a link is busy, with granted data only and with all traffic.
#[derive(Debug, Clone, Copy, Default)]
struct DirectionTraffic {
    /// Time at which the data of the last grant has passed the link, which is l/B after the grant: §3.1.1 (7).
    granted: Time,
    /// Time at which the data of all grants, and all control messages, would have passed the link if the link sent them
    /// one after the other.
    carried: Time,
}

impl DirectionTraffic {
    /// Returns the time at which the scheduler may grant the next chunk, if control messages may put the link behind
    /// its grants by `slack`.
    fn free_at(&self, slack: Time) -> Time {
        self.granted.max(self.carried.saturating_sub(slack))
    }

    fn grant(&mut self, at: Time, length: Time) {
        self.granted = at + length;
        self.carry(at, length);
    }

    fn carry(&mut self, at: Time, length: Time) {
        self.carried = self.carried.max(at) + length;
    }
}

/// Returns the time for which a chunk of `bytes` occupies a link: l/B of §3.1.1 (7), plus the time of the chunk's
/// framing.
fn occupancy(config: &SchedulerConfig, bytes: u32) -> Time {
    config.block * u64::from(bytes.div_ceil(8)) + config.framing
}

/// Placeholder in `requests` for a source that has received no request in the current iteration.
const NO_REQUEST: (Key, u32) = ((u64::MAX, u32::MAX), u32::MAX);

impl Scheduler {
    /// Creates the scheduler of a switch, with no demands.
    pub fn new(config: SchedulerConfig) -> Scheduler {
        let ports = config.ports as usize;
        Scheduler {
            config,
            demands: Demands::new(ports),
            free_src: PortSet::full(ports),
            free_dst: PortSet::full(ports),
            wants_dst: PortSets::empty(ports),
            wants_src: PortSets::empty(ports),
            waiting: 0,
            candidates: PortSet::empty(ports),
            ports: vec![PortTimes::default(); ports],
            slack: occupancy(&config, config.chunk),
            releases: BinaryHeap::new(),
            pipeline_free: Time::ZERO,
            requests: vec![NO_REQUEST; ports],
            requested: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Returns the scheduler's parameters.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// Handles a demand that has reached the scheduler: a notification by the source, or a request by the destination,
    /// which implies a notification.
    pub fn handle_demand(&mut self, now: Time, demand: Demand) {
        debug_assert!(demand.bytes > 0 && demand.src != demand.dst);
        self.release_ports(now);
        let Demand { src, dst, request, .. } = demand;
        let is_implied = request > Time::ZERO;
        let (sender, length) = if is_implied { (dst, request) } else { (src, self.config.control) };
        self.ports[sender as usize].as_src.carry(now, length);
        let first_grant = if is_implied { request } else { self.config.control };
        let overtakes = !self.config.pairs_in_order && self.config.policy == GrantPolicy::Srpt;
        let place = self.demands.push(&demand, first_grant, overtakes);
        if place != QueuePosition::Behind {
            self.rank(src, dst);
        }
        if place == QueuePosition::Alone {
            self.wants_dst.insert(dst, src);
            self.wants_src.insert(src, dst);
            self.waiting += 1;
            if self.free_src.contains(src) && self.free_dst.contains(dst) {
                self.candidates.insert(dst);
            }
        }
    }

    /// Returns when to call [`Scheduler::run`] next. If the returned time is in the past, the driver has to call it at
    /// once. Returns `None` if the scheduler has no work until another demand arrives.
    pub fn poll_at(&self) -> Option<Time> {
        if !self.candidates.is_empty() {
            return Some(self.pipeline_free);
        }
        let Reverse((at, ..)) = self.releases.peek()?;
        (self.waiting > 0).then_some((*at).max(self.pipeline_free))
    }

    /// Runs one iteration if there is a pair to match and the previous iteration has ended. Adds the grants of the
    /// iteration to `grants`.
    pub fn run(&mut self, now: Time, grants: &mut Vec<Grant>) {
        self.release_ports(now);
        if now < self.pipeline_free || self.candidates.is_empty() {
            return;
        }
        self.pipeline_free = now + self.config.iteration;
        self.request();
        while let Some(src) = self.requested.pop() {
            let (_, dst) = std::mem::replace(&mut self.requests[src as usize], NO_REQUEST);
            grants.push(self.grant(now, src, dst));
        }
        while let Some(dst) = self.refused.pop() {
            self.reconsider(dst);
        }
    }

    /// Lets each candidate destination send a request to one source, and keeps the request with the highest priority at
    /// each source: §3.1.2, first and second cycle.
    fn request(&mut self) {
        for index in 0..self.candidates.words().len() {
            for dst in ports_of(index, self.candidates.take_word(index)) {
                self.request_for(dst);
            }
        }
    }

    fn request_for(&mut self, dst: u32) {
        if !self.free_dst.contains(dst) {
            return;
        }
        let Some((key, src)) = self.best_source(dst) else {
            return;
        };
        let standing = &mut self.requests[src as usize];
        if *standing == NO_REQUEST {
            self.requested.push(src);
            *standing = (key, dst);
        } else if key < standing.0 {
            self.refused.push(standing.1);
            *standing = (key, dst);
        } else {
            self.refused.push(dst);
        }
    }

    /// Returns the free source whose message for `dst` has the highest priority, together with that priority.
    fn best_source(&self, dst: u32) -> Option<(Key, u32)> {
        let eligible = self.wants_dst.meet(dst, &self.free_src).enumerate();
        let sources = eligible.flat_map(|(index, word)| ports_of(index, word));
        sources.map(|src| (self.demands.key(src, dst), src)).min()
    }

    /// Grants `src` the next chunk of its first message for `dst`, and makes the ports of `src` and `dst` busy: §3.1.2,
    /// third cycle, and §3.1.1 (4), (5).
    fn grant(&mut self, now: Time, src: u32, dst: u32) -> Grant {
        let head = self.demands.head(src, dst);
        let bytes = head.remaining.min(self.config.chunk.into()) as u32;
        let first = !head.started;
        let length = if first { head.first_grant } else { self.config.control };
        head.started = true;
        head.remaining -= u64::from(bytes);
        let (token, last) = (head.token, head.remaining == 0);
        if last && !self.demands.pop(src, dst) {
            self.wants_dst.remove(dst, src);
            self.wants_src.remove(src, dst);
            self.waiting -= 1;
        } else {
            self.rank(src, dst);
        }
        let at = self.occupy(now, src, dst, bytes);
        self.ports[src as usize].as_dst.carry(at, length);
        Grant { src, dst, token, bytes, first, last, at }
    }

    /// Makes the ports of `src` and `dst` busy for the time of `bytes` on a link, starting when the two ports are free.
    /// Returns the time at which they start to be busy.
    fn occupy(&mut self, now: Time, src: u32, dst: u32, bytes: u32) -> Time {
        let ready = now + self.config.iteration;
        let at = ready.max(self.free_at(PortRole::Src, src)).max(self.free_at(PortRole::Dst, dst));
        let length = occupancy(&self.config, bytes);
        self.ports[src as usize].as_src.grant(at, length);
        self.ports[dst as usize].as_dst.grant(at, length);
        self.free_src.remove(src);
        self.free_dst.remove(dst);
        for (role, port) in [(PortRole::Src, src), (PortRole::Dst, dst)] {
            let release = self.release_at(self.free_at(role, port));
            self.releases.push(Reverse((release, role, port)));
        }
        at
    }

    /// Returns the earliest start of an iteration that may match a port that is free from `free_at` on. The port must
    /// be free strictly before the time at which the following iteration issues its grants.
    fn release_at(&self, free_at: Time) -> Time {
        (free_at + Time::from_ps(1)).saturating_sub(self.config.iteration * 2)
    }

    fn free_at(&self, role: PortRole, port: u32) -> Time {
        let PortTimes { as_src, as_dst } = &self.ports[port as usize];
        if role == PortRole::Src { as_src } else { as_dst }.free_at(self.slack)
    }

    /// Makes those ports eligible for matching that an iteration starting now may match.
    fn release_ports(&mut self, now: Time) {
        while let Some(Reverse((at, role, port))) = self.releases.peek().copied()
            && at <= now
        {
            self.releases.pop();
            let due = self.release_at(self.free_at(role, port));
            if due > now {
                self.releases.push(Reverse((due, role, port))); // control came on top
            } else {
                self.release(role, port);
            }
        }
    }

    fn release(&mut self, role: PortRole, port: u32) {
        match role {
            PortRole::Src => {
                self.free_src.insert(port);
                self.candidates.add_all(self.wants_src.meet(port, &self.free_dst));
            }
            PortRole::Dst => {
                self.free_dst.insert(port);
                self.reconsider(port);
            }
        }
    }

    /// Makes the free destination `dst` a candidate in the next iteration if a source that has a message for it is
    /// free.
    fn reconsider(&mut self, dst: u32) {
        if self.wants_dst.meets(dst, &self.free_src) {
            self.candidates.insert(dst);
        }
    }

    /// Updates the priority of the first demand of a pair of source and destination, according to the policy.
    fn rank(&mut self, src: u32, dst: u32) {
        self.demands.rank(src, dst, self.config.policy == GrantPolicy::Srpt);
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
