//! Loads of programs while they compute.
//!
//! In each step, a program loads the maximum number of lines for which a core may wait at once, and then computes with
//! them. A step takes the time that its lines need through memories, CXL ports and the cache, together with all other
//! transfers there. Stores are not modelled, because a program does not wait for them and because they bypass the cache
//! (DRack §5.1).
//!
//! The computation of a job has its own core, separate from the cores that process packets. Its data are in the pool,
//! as buffers are (§4.2: IS0 holds user data), or in the memory of its host. Sequential loads go through the part of
//! the cache with the longest lines, and scattered loads through the part with the shortest. A scattered load reads a
//! random line of the data, all lines being equally likely. Without the cache, the scattered lines of a step are
//! consecutive from a random line on, because memories serve them in the same time. The data of messages have already
//! been loaded and copied, unless the program reads them in place.

use super::memory::{ByteLocation, LINE, last_of};
use super::{Event, HostOutput, Hosts};
use unrack_basis::mix;
use unrack_engine::network::Pace;
use unrack_units::Time;
use unrack_workload::{Computing, NodeId};

/// First address of data that a program loads repeatedly. These addresses are beyond all buffers of a rack.
const AGAIN: u64 = 1 << 48;
/// First address of data that a program loads at random.
const SCATTERED: u64 = 2 << 48;
/// First address of data that a program loads for the first time.
const FRESH: u64 = 3 << 48;

pub(crate) struct HostPrograms {
    all: Vec<Program>,
    free: Vec<u32>,
    /// Offset of the next new data of each host.
    fresh: Vec<u64>,
    /// Number of scattered loads of each host so far. It determines which line is drawn next.
    drawn: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Program {
    actor: u32,
    host: NodeId,
    /// New lines that remain to be loaded.
    fresh: u64,
    /// Lines that remain to be loaded sequentially and that were loaded before.
    again: u64,
    /// Scattered lines that remain to be loaded.
    scattered: u64,
    /// Number of lines among which scattered loads choose.
    among: u64,
    /// Computing time that remains.
    compute: Time,
    /// Number of steps that remain.
    steps: u64,
}

impl HostPrograms {
    /// Creates the state of `hosts` hosts that run no program.
    pub(super) fn new(hosts: u32) -> HostPrograms {
        let hosts = hosts as usize;
        HostPrograms { all: Vec::new(), free: Vec::new(), fresh: vec![0; hosts], drawn: vec![0; hosts] }
    }

    /// Returns the address of a random line among the first `among` lines of the data of a host.
    fn any_line(&mut self, host: NodeId, among: u64) -> u64 {
        let drawn = &mut self.drawn[host as usize];
        *drawn += 1;
        SCATTERED + mix(*drawn ^ u64::from(host) << 40) % among * LINE
    }

    /// Returns whether no program is running.
    pub(super) fn is_at_rest(&self) -> bool {
        self.free.len() == self.all.len()
    }
}

impl Hosts {
    /// Starts a program. [`Output::Computed`] reports its end.
    pub fn compute(&mut self, now: Time, computing: Computing) {
        let Computing { actor, node: host, time, loads } = computing;
        let came = if self.plan.spec.references() && !self.plan.spec.program_loads { loads.came } else { 0 };
        let (fresh, again) = ((came + loads.fresh).div_ceil(LINE), loads.again.div_ceil(LINE));
        let (scattered, among) = (loads.scattered, (loads.among / LINE).max(1));
        let steps = (fresh + again + scattered).div_ceil(self.window());
        let program = Program { actor, host, fresh, again, scattered, among, compute: time, steps };
        let number = match self.programs.free.pop() {
            Some(free) => {
                self.programs.all[free as usize] = program;
                free
            }
            None => {
                self.programs.all.push(program);
                self.programs.all.len() as u32 - 1
            }
        };
        match steps {
            0 => self.outputs.push_back(HostOutput::At(now + time, Event::Loaded(number))),
            _ => self.load_on(now, number),
        }
    }

    /// Returns the number of lines that a core loads at once.
    fn window(&self) -> u64 {
        u64::from(self.plan.spec.memory.outstanding_loads)
    }

    /// Starts the next step of a program, or ends the program if no step remains.
    pub(super) fn load_on(&mut self, now: Time, number: u32) {
        let mut program = self.programs.all[number as usize];
        if program.steps == 0 {
            self.programs.free.push(number);
            return self.outputs.push_back(HostOutput::Computed(program.actor));
        }
        let (host, mut left, mut ready) = (program.host, self.window(), now);
        let take = |lines: &mut u64, left: &mut u64| {
            let taken = (*lines).min(*left);
            *lines -= taken;
            *left -= taken;
            taken
        };
        let fresh = take(&mut program.fresh, &mut left);
        if fresh > 0 {
            let next = &mut self.programs.fresh[host as usize];
            let address = FRESH + *next;
            *next += fresh * LINE;
            ready = ready.max(self.load_in_order(now, host, address, fresh));
        }
        let again = take(&mut program.again, &mut left);
        if again > 0 {
            // The lines are loaded from last to first. Any order is valid if it is always the same.
            ready = ready.max(self.load_in_order(now, host, AGAIN + program.again * LINE, again));
        }
        let scattered = take(&mut program.scattered, &mut left);
        if scattered > 0 {
            ready = ready.max(self.load_scattered(now, host, program.among, scattered));
        }
        let share = Time::from_ps(program.compute.as_ps() / program.steps);
        program.compute = program.compute - share;
        program.steps -= 1;
        self.programs.all[number as usize] = program;
        self.outputs.push_back(HostOutput::At(ready + share, Event::Loaded(number)));
    }

    fn load_in_order(&mut self, now: Time, host: NodeId, address: u64, lines: u64) -> Time {
        if self.caches.is_empty() {
            return self.memory.load(now, host, ByteLocation::Buffer(host, address), lines * LINE);
        }
        let part = self.plan.sizes.len() as u8 - 1;
        let line = self.caches[host as usize].line(part);
        let end = address + lines * LINE;
        let (mut ready, mut at) = (now, address);
        while at < end {
            let until = (at / line + 1) * line;
            ready = ready.max(self.load_line(now, host, part, at, until.min(end) - at));
            at = until;
        }
        self.hit(ready, lines)
    }

    fn load_scattered(&mut self, now: Time, host: NodeId, among: u64, lines: u64) -> Time {
        if self.caches.is_empty() {
            let place = ByteLocation::Buffer(host, self.programs.any_line(host, among));
            return self.memory.load(now, host, place, lines * LINE);
        }
        let mut ready = now;
        for _ in 0..lines {
            let address = self.programs.any_line(host, among);
            ready = ready.max(self.load_line(now, host, 0, address, LINE));
        }
        self.hit(ready, lines)
    }

    /// Returns the time at which the cache has the line with this address, of which the program loads `bytes`.
    fn load_line(&mut self, now: Time, host: NodeId, part: u8, address: u64, bytes: u64) -> Time {
        let cache = &mut self.caches[host as usize];
        let found = cache.find(part, address);
        cache.count(bytes, found.is_some());
        found.unwrap_or_else(|| self.fetch_line(now, now, host, (host, part), address))
    }

    /// Returns the time at which a core has loaded `lines` cache lines, which are in its cache from the time `ready` on.
    pub(super) fn hit(&self, ready: Time, lines: u64) -> Time {
        let spec = &self.plan.spec;
        let line_time = Pace::new(spec.memory.rate).transmit(LINE);
        ready + last_of(lines, self.window(), spec.cache.latency, line_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HostPlan;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use unrack_engine::HostModel;
    use unrack_engine::topology::{Link, Topology};
    use unrack_rack::{HostSpec, Wiring};
    use unrack_units::Rate;
    use unrack_workload::TaskLoads;

    const T: fn(u64) -> Time = Time::from_ps;

    /// Creates a rack of two hosts. A memory has 80 ns and 20 ps per byte, and a port has 55 ns and 16 ps per byte.
    fn hosts(memory_pool: bool, dram_cache: bool) -> Hosts {
        hosts_of(400, memory_pool, dram_cache)
    }

    /// Creates the same rack with memories of another rate.
    fn hosts_of(memory_gbps: u64, memory_pool: bool, dram_cache: bool) -> Hosts {
        let link = |gbps, ns| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) };
        let wiring = Wiring { racks: 1, hosts_per_rack: 2, cores: 0 };
        let topology = Topology::drack(wiring, link(100, 0), link(100, 0), link(500, 55));
        let mut spec = HostSpec { memory_pool, dram_cache, program_loads: false, ..HostSpec::default() };
        spec.memory.rate = Rate::from_gbps(memory_gbps);
        Hosts::new(HostPlan::new(&HostModel { spec: Arc::new(spec), cxl: link(500, 55) }, &topology, 4096))
    }

    /// Runs until all actors have finished the computations that they start at `now`. Checks that each reports its end
    /// once.
    fn run(hosts: &mut Hosts, now: Time, given: &[Computing]) -> Time {
        let (mut events, mut told, mut last) = (BTreeSet::new(), BTreeSet::new(), now);
        given.iter().for_each(|computing| hosts.compute(now, *computing));
        loop {
            while let Some(output) = hosts.poll() {
                match output {
                    HostOutput::At(at, Event::Loaded(number)) => _ = events.insert((at, number)),
                    HostOutput::Computed(actor) => assert!(told.insert(actor)),
                    other => panic!("{other:?}"),
                }
            }
            let Some((at, number)) = events.pop_first() else { break };
            assert!(at >= last);
            last = at;
            hosts.handle(at, Event::Loaded(number));
        }
        assert!(told.len() == given.len() && hosts.is_at_rest());
        last
    }

    fn computing(node: NodeId, loads: TaskLoads) -> Computing {
        Computing { actor: 7 + node, node, time: T(1_000_000), loads }
    }

    #[test]
    fn steps_of_what_a_core_waits_for_at_once() {
        let again = 100 * LINE;
        let mut own = hosts(false, false);
        // The time is that of 64 lines and then 36 lines, of 1,280 ps each after 80 ns, plus the computing time.
        let expected = T(2 * 80_000 + 100 * 1_280 + 1_000_000);
        assert_eq!(
            run(&mut own, T(5), &[computing(0, TaskLoads { again, ..TaskLoads::default() })]),
            T(5) + expected
        );
        assert_eq!(own.memory.bytes(), (100 * LINE, 0));
        // Half of the lines are at the other host. They take 220 ns more in each step, and the local lines arrive
        // meanwhile.
        let mut pool = hosts(true, false);
        let there = run(&mut pool, T(0), &[computing(0, TaskLoads { again, ..TaskLoads::default() })]);
        let lines = 32 + 16;
        assert_eq!(there, T(2 * 300_000 + lines * 1_280 + 1_000_000));
        assert_eq!(pool.memory.bytes(), (52 * LINE, 48 * LINE));
    }

    #[test]
    fn who_loads_nothing_only_computes() {
        for (pool, cache) in [(false, false), (true, false), (true, true)] {
            let at = run(&mut hosts(pool, cache), T(3), &[computing(1, TaskLoads::default())]);
            assert_eq!(at, T(1_000_003));
        }
    }

    #[test]
    fn a_cache_misses_each_line_once() {
        let mut hosts = hosts(true, true);
        // The 1,024 sequential lines are in 16 long cache lines. The 16,384 scattered loads are of 64 lines, which are
        // in 32 short cache lines.
        let loads =
            TaskLoads { again: 1024 * LINE, scattered: 16_384, among: 64 * LINE, ..TaskLoads::default() };
        let first = run(&mut hosts, T(0), &[computing(0, loads)]);
        let counts = hosts.counts();
        assert_eq!((counts.loads, counts.loads - counts.hits), (1024 + 16_384, 16 + 32));
        let fetched = counts.local_bytes + counts.remote_bytes;
        assert_eq!(fetched, 16 * 4096 + 32 * 128);
        let second = run(&mut hosts, first, &[computing(0, loads)]) - first;
        assert_eq!(hosts.counts().loads - hosts.counts().hits, 16 + 32);
        // All lines of the 272 steps are in the cache.
        assert_eq!(second, T(272 * (80_000 + 64 * 1_280) + 1_000_000));
        // Fresh data have new addresses each time.
        let fresh = TaskLoads { fresh: 4096, ..TaskLoads::default() };
        let end = run(&mut hosts, first + second, &[computing(0, fresh)]);
        run(&mut hosts, end, &[computing(0, fresh)]);
        assert_eq!(hosts.counts().loads - hosts.counts().hits, 16 + 32 + 2);
    }

    #[test]
    fn programs_share_memories_and_ports() {
        let loads = TaskLoads { fresh: 1 << 20, ..TaskLoads::default() };
        // The window of a core is about as many lines as two memories of 40 Gb/s deliver during the latency.
        let alone = run(&mut hosts_of(40, true, false), T(0), &[computing(0, loads)]);
        let mut both = hosts_of(40, true, false);
        let together = run(&mut both, T(0), &[computing(0, loads), computing(1, loads)]);
        assert!(together > alone && together < alone * 2, "{alone} {together}");
        assert_eq!(both.memory.bytes(), (1 << 20, 1 << 20));
    }

    #[test]
    fn what_came_is_loaded_where_it_lies() {
        let loads = TaskLoads { came: 4096, ..TaskLoads::default() };
        let takes = |memory_pool| run(&mut hosts(memory_pool, false), T(0), &[computing(0, loads)]);
        // Without references, the program has already loaded and copied the data.
        assert_eq!(takes(false), T(1_000_000));
        assert!(takes(true) > T(1_000_000));
    }
}
