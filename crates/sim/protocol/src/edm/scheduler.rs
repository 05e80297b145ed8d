//! The in-network scheduler (§3.1): priority-based parallel iterative matching.
//!
//! This core has no clock and no I/O. Its driver
//! - reports demands in order of time: [`Scheduler::handle_demand`],
//! - asks for the next time to run: [`Scheduler::poll_at`],
//! - runs the core at that time: [`Scheduler::run`], which does at most one iteration and returns its grants.
//!
//! One iteration takes three clock cycles (§3.1.2): every free destination requests its highest-priority message among
//! those whose source is free; every source that was asked grants the request with the highest priority; both ports
//! become busy. An iteration that starts at t issues its grants at t + 3 cycles. Destinations whose request lost try
//! again in the next iteration.
//!
//! §3.1.1 (7): a port granted l bytes at t' gets its next grant at t' + l/B, no earlier, and also no later if a
//! message waits. Iterations do not start at exactly these times. Therefore, an iteration that starts at t matches all
//! ports that will be free before the grants of the *next* iteration, at t + 6 cycles, and holds each grant until both
//! its ports are free. Otherwise every chunk would wait for the next iteration: the 5.12 ns of a 64 B chunk at 100
//! Gb/s would become 6 ns, and a load of 0.9 could not be carried.
//!
//! Links also carry control messages that are not granted: notifications and requests to the switch, grants and
//! requests from the switch (§3.1.4: 6 % for 64 B). Rule (7) leaves no room for them. A link falls behind by the
//! control messages that it cannot carry in idle time. A link without idle time would fall behind without bound, while
//! its data queues in the switch.
//!
//! Departure: a port whose link is more than one chunk behind stays busy until it has caught up. Decision 4 explains
//! why the limit is one chunk and not zero, and what effect it has.
//!
//! Hardware starts an iteration every three cycles whether or not there is work. This core starts one when there is a
//! pair to match and the pipeline is free. It does not model the phase of an idle pipeline, which is under one
//! iteration (1 ns at 3 GHz). The core touches only ports whose state changed, and finds eligible messages with the
//! same rows of bits as the hardware.

use super::bits::{PortSet, PortSets, ports_of};
use super::demands::{Demands, Key, QueuePosition};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_units::Time;

/// Cycles of the scheduler's clock in one matching iteration (§3.1.2).
pub const ITERATION_CYCLES: u64 = 3;

/// Order in which messages are granted (§3.1.1 (4)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantPolicy {
    /// First come, first served, by time of notification: best for light-tailed sizes.
    Fcfs,
    /// Fewest bytes left first, then by time of notification: best for heavy-tailed sizes. It is the same as first
    /// come, first served if all messages have the same size of one chunk.
    Srpt,
}

/// Parameters of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerConfig {
    pub ports: u32,
    /// Maximum number of bytes that one grant allows (c in §3.1.1).
    pub chunk: u32,
    pub policy: GrantPolicy,
    /// Whether messages of one pair are granted in the order of their demands (§3.1.1 (5)). If not, `policy` orders
    /// them too.
    pub pairs_in_order: bool,
    /// Length of one iteration: three cycles of the scheduler's clock.
    pub iteration: Time,
    /// Time of one 8-byte block on a link. l/B is this time multiplied by the number of blocks in l bytes.
    pub block: Time,
    /// Time of a chunk's framing on a link, which §3.1.1 (7) leaves out.
    pub framing: Time,
    /// Time of one notification or grant on a link.
    pub control: Time,
}

/// Bytes that wait to be sent from `src` to `dst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    pub src: u32,
    pub dst: u32,
    pub bytes: u64,
    /// The driver's number of the message, which each of its grants contains.
    pub token: u32,
    /// Time on a link of the request of `dst` that implies this demand and serves as its first grant. Zero if `src`
    /// sent a notification.
    pub request: Time,
}

/// Permission for `src` to send `bytes` of a message to `dst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub src: u32,
    pub dst: u32,
    pub token: u32,
    pub bytes: u32,
    /// Whether this is the first grant of a message. In the answer to a read, the request itself is this grant.
    pub first: bool,
    /// Whether no bytes of the message are left to grant.
    pub last: bool,
    /// Time at which the switch issues the grant.
    pub at: Time,
}

/// Scheduler of one switch.
#[derive(Debug, Clone)]
pub struct Scheduler {
    config: SchedulerConfig,
    demands: Demands,
    /// Ports that may be matched.
    free_src: PortSet,
    free_dst: PortSet,
    /// For each destination, the sources with a message for it; and for each source, the destinations of its messages.
    wants_dst: PortSets,
    wants_src: PortSets,
    /// Number of pairs with a message.
    waiting: usize,
    /// Destinations that may have a message to request.
    candidates: PortSet,
    ports: Vec<PortTimes>,
    /// Maximum time that control messages may put a link behind its grants: the time of one chunk.
    slack: Time,
    /// Times from which on an iteration may match a port again, unless the port is held longer by then.
    releases: BinaryHeap<Reverse<(Time, PortRole, u32)>>,
    pipeline_free: Time,
    /// Best request to each source in the current iteration, as (priority, dst).
    requests: Vec<(Key, u32)>,
    requested: Vec<u32>,
    /// Destinations whose request lost in the current iteration.
    refused: Vec<u32>,
}

/// Direction of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PortRole {
    Src,
    Dst,
}

/// Times of the two directions of one port.
#[derive(Debug, Clone, Copy, Default)]
struct PortTimes {
    as_src: DirectionTraffic,
    as_dst: DirectionTraffic,
}

/// Granted and carried traffic in one direction of a link.
#[derive(Debug, Clone, Copy, Default)]
struct DirectionTraffic {
    /// Time l/B after the last grant: §3.1.1 (7).
    granted: Time,
    /// Time at which all grants and all control messages would have passed if they were sent one after the other.
    carried: Time,
}

impl DirectionTraffic {
    /// Returns when the next chunk may be granted, if the link may be behind by `slack`.
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

/// Returns the time for which `bytes` occupy a link: l/B of §3.1.1 (7).
fn occupancy(config: &SchedulerConfig, bytes: u32) -> Time {
    config.block * u64::from(bytes.div_ceil(8)) + config.framing
}

/// Placeholder in `requests` for no request.
const NO_REQUEST: (Key, u32) = ((u64::MAX, u32::MAX), u32::MAX);

impl Scheduler {
    /// Creates the scheduler of a switch without demands.
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

    /// Handles a demand that has reached the scheduler: a notification, or a request that implies one.
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

    /// Returns when to call [`Scheduler::run`] next; a time in the past means at once. Returns `None` if there is
    /// nothing to do until another demand arrives.
    pub fn poll_at(&self) -> Option<Time> {
        if !self.candidates.is_empty() {
            return Some(self.pipeline_free);
        }
        let Reverse((at, ..)) = self.releases.peek()?;
        (self.waiting > 0).then_some((*at).max(self.pipeline_free))
    }

    /// Runs the iteration that starts now, if there is a pair to match and the pipeline is free. Adds its grants to
    /// `grants`.
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

    /// Lets each destination send a request to one source, and keeps the best request to each source: §3.1.2, first
    /// and second cycle.
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

    /// Returns the free source with the highest-priority message for `dst`, and that priority.
    fn best_source(&self, dst: u32) -> Option<(Key, u32)> {
        let eligible = self.wants_dst.meet(dst, &self.free_src).enumerate();
        let sources = eligible.flat_map(|(index, word)| ports_of(index, word));
        sources.map(|src| (self.demands.key(src, dst), src)).min()
    }

    /// Grants a chunk and makes both ports busy: §3.1.2, third cycle, and §3.1.1 (4), (5).
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

    /// Makes both ports busy for l/B, starting when both are free. Returns the start.
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

    /// Returns when an iteration may match a port that is free from `free_at` on: as soon as the port is free strictly
    /// before the grants of the following iteration.
    fn release_at(&self, free_at: Time) -> Time {
        (free_at + Time::from_ps(1)).saturating_sub(self.config.iteration * 2)
    }

    fn free_at(&self, role: PortRole, port: u32) -> Time {
        let PortTimes { as_src, as_dst } = &self.ports[port as usize];
        if role == PortRole::Src { as_src } else { as_dst }.free_at(self.slack)
    }

    /// Makes those ports eligible that an iteration starting now may match.
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

    /// Makes a free destination a candidate in the next iteration if a source with a message for it is free.
    fn reconsider(&mut self, dst: u32) {
        if self.wants_dst.meets(dst, &self.free_src) {
            self.candidates.insert(dst);
        }
    }

    /// Sets the priority of a pair's head: smaller goes first.
    fn rank(&mut self, src: u32, dst: u32) {
        self.demands.rank(src, dst, self.config.policy == GrantPolicy::Srpt);
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
