//! Paths between cores, NICs and memories, and loads of many lines at once.
//!
//! A transfer is divided into pieces: a piece is all lines of the transfer that are in one memory. Each piece crosses
//! the links between its agent and that memory. These are the link of a NIC to its host or, where NICs are pooled, to
//! the CXL switch, and the CXL ports of the hosts on both sides. Links forward a piece before all of it has arrived
//! (cut-through).
//!
//! A core has at most w loads outstanding. Let s be the time of a memory for each line, and t the latency of a single
//! line without s. Line i + w is requested when line i has arrived. Therefore the last of l lines arrives after t + ((l
//! - 1) mod w + 1) s + floor((l - 1) / w) max(w s, t + s).

use super::interleave::shares;
use super::plan::HostPlan;
use super::sparse::Sparse;
use super::timeline::BookedTimeline;
use std::ops::Range;
use unrack_engine::network::{Departure, Pace};
use unrack_units::Time;
use unrack_workload::NodeId;

/// Bytes of a cache line of the processor.
pub(super) const LINE: u64 = 64;

/// Device that loads or stores: a core of a host, or a NIC.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemoryAgent {
    Core(NodeId),
    Nic(u32),
}

/// Location of data.
#[derive(Debug, Clone, Copy)]
pub(super) enum ByteLocation {
    /// Memory of this host that is not shared (ISi).
    Own(NodeId),
    /// This address in the memory that holds the buffers of this host: the pool of the host's rack (IS0), or the host's
    /// own memory.
    Buffer(NodeId, u64),
}

pub(crate) struct Memory {
    plan: HostPlan,
    /// Timelines of hosts or NICs, by [`Kind`].
    timelines: [Sparse<BookedTimeline, 16>; 5],
    /// Propagation of the link of a NIC.
    dma: Time,
    /// Pieces of the current transfer: the host of each memory, and the bytes there.
    pieces: Vec<(NodeId, u64)>,
    /// Bytes that crossed no CXL port of a host, followed by bytes that crossed one.
    loaded: [u64; 2],
}

/// Kind of memory or link. Each serves one transfer at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    /// CXL port of a host, outward.
    Leave,
    /// CXL port of a host, inward.
    Enter,
    /// Link of a NIC, in the direction from the NIC.
    Up,
    /// Link of a NIC, in the direction to the NIC.
    Down,
}

/// A link or memory of this kind, of this host or NIC.
type HostLink = (Kind, u32);

/// Links that a piece crosses, in order; at most three.
#[derive(Debug, Clone, Copy)]
struct Legs {
    legs: [HostLink; 3],
    len: usize,
}

impl Legs {
    fn new<const N: usize>(crossed: [HostLink; N]) -> Legs {
        let mut legs = [(Kind::Memory, 0); 3];
        legs[..N].copy_from_slice(&crossed);
        Legs { legs, len: N }
    }

    fn iter(&self) -> impl Iterator<Item = HostLink> {
        self.legs.into_iter().take(self.len)
    }
}

impl Memory {
    /// Creates idle memories and links.
    pub(super) fn new(plan: &HostPlan) -> Memory {
        let memory = Pace::new(plan.spec.memory.rate);
        let dma = Pace::new(plan.spec.nic.dma.rate);
        let paces = [memory, plan.cxl.pace, plan.cxl.pace, dma, dma];
        let timelines = paces.map(|pace| Sparse::new(plan.hosts, BookedTimeline::new(pace)));
        let dma = plan.spec.nic.dma.propagation;
        Memory { plan: plan.clone(), timelines, dma, pieces: Vec::new(), loaded: [0; 2] }
    }

    /// Returns the number of bytes that crossed no CXL port of a host, and the number of bytes that crossed one.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.loaded[0], self.loaded[1])
    }

    /// Stores `bytes` that the agent sends at `at`. Returns the time at which they are in memory.
    pub(super) fn write(
        &mut self,
        now: Time,
        agent: MemoryAgent,
        at: Time,
        place: ByteLocation,
        bytes: u64,
    ) -> Time {
        let latency = self.plan.spec.memory.latency;
        let mut done = at;
        for n in self.divide(place, bytes) {
            let (host, share) = self.pieces[n];
            let legs = self.legs(agent, host, true);
            self.count(legs, share);
            let (first, last) = self.cross(now, legs, (at, at), share);
            let stored = self.book(now, (Kind::Memory, host), first, share);
            done = done.max(last.max(stored.last) + latency);
        }
        done
    }

    /// Reads `bytes` that the agent requests at `at`. Returns the time at which they have arrived.
    pub(super) fn read(
        &mut self,
        now: Time,
        agent: MemoryAgent,
        at: Time,
        place: ByteLocation,
        bytes: u64,
    ) -> Time {
        let mut done = at;
        for n in self.divide(place, bytes) {
            done = done.max(self.read_piece(now, agent, at, n));
        }
        done
    }

    /// Reads whole lines by a core, whose number of outstanding loads is limited. Returns the time at which they have
    /// arrived.
    pub(super) fn load(&mut self, now: Time, core: NodeId, place: ByteLocation, bytes: u64) -> Time {
        let most = u64::from(self.plan.spec.memory.outstanding_loads);
        let lines = bytes.div_ceil(LINE);
        let mut done = now;
        for n in self.divide(place, bytes) {
            let (host, share) = self.pieces[n];
            let here = share.div_ceil(LINE);
            let window = (most * here / lines.max(1)).max(1);
            let (wait, line) = self.unhindered(core, host);
            let least = now + last_of(here, window, wait, line);
            self.pieces[n].1 = here * LINE;
            done = done.max(self.read_piece(now, MemoryAgent::Core(core), now, n)).max(least);
        }
        done
    }

    /// Stores `bytes` from a core in the memory of its host. Returns the time at which they are stored.
    pub(super) fn store(&mut self, now: Time, core: NodeId, at: Time, bytes: u64) -> Time {
        self.loaded[0] += bytes;
        self.book(now, (Kind::Memory, core), at, bytes).last
    }

    /// Returns the time that a store needs to reach the registers of a NIC.
    pub(super) fn to_nic(&self) -> Time {
        self.dma + if self.plan.nics_are_pooled() { self.plan.cxl.propagation } else { Time::ZERO }
    }

    /// Returns two times for one line that a core loads from an idle memory over idle links: the latency without the
    /// transmission time of the line, and the transmission time on the slowest link or memory on the path.
    fn unhindered(&self, core: NodeId, host: NodeId) -> (Time, Time) {
        let legs = self.legs(MemoryAgent::Core(core), host, false);
        let wait = self.plan.spec.memory.latency + self.distance(legs) * 2;
        let pace = Pace::new(self.plan.spec.memory.rate).transmit(LINE);
        (wait, if legs.len == 0 { pace } else { pace.max(self.plan.cxl.pace.transmit(LINE)) })
    }

    fn read_piece(&mut self, now: Time, agent: MemoryAgent, at: Time, piece: usize) -> Time {
        let (host, share) = self.pieces[piece];
        let legs = self.legs(agent, host, false);
        self.count(legs, share);
        let found = self.book(now, (Kind::Memory, host), at + self.distance(legs), share);
        let latency = self.plan.spec.memory.latency;
        self.cross(now, legs, (found.first + latency, found.last + latency), share).1
    }

    /// Moves bytes over links. Takes the times at which the first and the last bit are ready to leave, and returns the
    /// times at which these bits have crossed all links.
    fn cross(
        &mut self,
        now: Time,
        legs: Legs,
        (mut first, mut last): (Time, Time),
        bytes: u64,
    ) -> (Time, Time) {
        for leg in legs.iter() {
            let departure = self.book(now, leg, first, bytes);
            let propagation = self.propagation(leg);
            (first, last) = (departure.first + propagation, last.max(departure.last) + propagation);
        }
        (first, last)
    }

    fn book(&mut self, now: Time, (kind, number): HostLink, at: Time, bytes: u64) -> Departure {
        self.timelines[kind as usize][number as usize].book(now, at, bytes)
    }

    /// Sets `pieces` to the bytes in each memory, and returns their range.
    fn divide(&mut self, place: ByteLocation, bytes: u64) -> Range<usize> {
        self.pieces.clear();
        match place {
            ByteLocation::Buffer(host, address) if self.plan.spec.memory_pool => {
                let first = self.plan.rack_of(host) * self.plan.of_rack;
                let granule = self.plan.spec.memory.interleave.get();
                let shares = shares(self.plan.of_rack, granule, address, bytes);
                self.pieces.extend(shares.map(|(memory, share)| (first + memory, share)));
            }
            ByteLocation::Buffer(host, _) | ByteLocation::Own(host) => self.pieces.push((host, bytes)),
        }
        0..self.pieces.len()
    }

    fn count(&mut self, legs: Legs, bytes: u64) {
        let remote = legs.iter().any(|(kind, _)| matches!(kind, Kind::Leave | Kind::Enter));
        self.loaded[usize::from(remote)] += bytes;
    }

    /// Returns the links between an agent and a memory, in the order in which a transfer crosses them.
    fn legs(&self, agent: MemoryAgent, memory: NodeId, outward: bool) -> Legs {
        use Kind::{Down, Enter, Leave, Up};
        // Outward means away from the agent.
        match (agent, outward) {
            (MemoryAgent::Core(host), _) if host == memory => Legs::new([]),
            (MemoryAgent::Core(host), true) => Legs::new([(Leave, host), (Enter, memory)]),
            (MemoryAgent::Core(host), false) => Legs::new([(Leave, memory), (Enter, host)]),
            (MemoryAgent::Nic(nic), true) if self.plan.nics_are_pooled() => {
                Legs::new([(Up, nic), (Enter, memory)])
            }
            (MemoryAgent::Nic(nic), false) if self.plan.nics_are_pooled() => {
                Legs::new([(Leave, memory), (Down, nic)])
            }
            // From here on, each NIC belongs to one host.
            (MemoryAgent::Nic(nic), true) if nic == memory => Legs::new([(Up, nic)]),
            (MemoryAgent::Nic(nic), false) if nic == memory => Legs::new([(Down, nic)]),
            (MemoryAgent::Nic(nic), true) => Legs::new([(Up, nic), (Leave, nic), (Enter, memory)]),
            (MemoryAgent::Nic(nic), false) => Legs::new([(Leave, memory), (Enter, nic), (Down, nic)]),
        }
    }

    fn propagation(&self, (kind, _): HostLink) -> Time {
        if matches!(kind, Kind::Up | Kind::Down) { self.dma } else { self.plan.cxl.propagation }
    }

    fn distance(&self, legs: Legs) -> Time {
        legs.iter().fold(Time::ZERO, |sum, leg| sum + self.propagation(leg))
    }
}

/// Returns the time after which the last of `lines` lines has arrived. The module documentation explains the formula.
pub(super) fn last_of(lines: u64, window: u64, wait: Time, line: Time) -> Time {
    let last = lines.saturating_sub(1);
    let round = (line * window).max(wait + line);
    wait + line * (last % window + 1) + round * (last / window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;
    use unrack_engine::HostModel;
    use unrack_engine::topology::{Link, Topology};
    use unrack_rack::Wiring;
    use unrack_units::Rate;

    const T: fn(u64) -> Time = Time::from_ps;

    fn link(gbps: u64, ns: u64) -> Link {
        Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
    }

    /// Creates the memories of one rack. Each takes 20 ps per byte with a latency of 80 ns; its port takes 16 ps per
    /// byte and 55 ns.
    fn memory(hosts: u32, spec: unrack_rack::HostSpec) -> Memory {
        let wiring = Wiring { racks: 1, hosts_per_rack: hosts, cores: 0 };
        let topology = Topology::drack(wiring, link(100, 0), link(100, 0), link(500, 55));
        let mut spec = spec;
        spec.memory.rate = Rate::from_gbps(400);
        let inside = HostModel { spec: Arc::new(spec), cxl: link(500, 55) };
        Memory::new(&HostPlan::new(&inside, &topology, 4096))
    }

    #[test]
    fn a_load_here_and_a_load_there() {
        let mut memory = memory(2, unrack_rack::HostSpec::default());
        let at = |memory: &mut Memory, core| memory.load(T(0), core, ByteLocation::Buffer(0, 0), 64);
        // The line takes 1,280 ps after 80 ns. From the other host, the request and the line each cross two links.
        assert_eq!(at(&mut memory, 0), T(80_000 + 1_280));
        let mut fresh = super::tests::memory(2, unrack_rack::HostSpec::default());
        assert_eq!(at(&mut fresh, 1), T(80_000 + 4 * 55_000 + 1_280));
    }

    #[test]
    fn a_pool_has_the_bandwidth_of_all_memories() {
        let done = |pool, hosts| {
            let spec = unrack_rack::HostSpec { memory_pool: pool, ..Default::default() };
            let mut memory = memory(hosts, spec);
            // All NICs write 4 MiB in total to buffers of host 0.
            let writes = (0..1024u64).map(|n| {
                memory.write(
                    T(0),
                    MemoryAgent::Nic(n as u32 % hosts),
                    T(0),
                    ByteLocation::Buffer(0, n * 4096),
                    4096,
                )
            });
            writes.max().unwrap().as_ps() as f64
        };
        // Without a pool, one memory takes all bytes at 20 ps each, because its port is faster. With a pool, the links
        // of the NICs are the limit: 31.25 ps.
        assert!((done(false, 4) / (4_194_304.0 * 20.0) - 1.0).abs() < 0.01);
        assert!((done(true, 4) / (4_194_304.0 * 31.25 / 4.0) - 1.0).abs() < 0.01);
    }

    proptest! {
        /// Compares the formula with a simulation of each line: a line is requested when the line one window before it
        /// has arrived.
        #[test]
        fn many_lines_are_arithmetic(lines in 1u64..300, window in 1u64..80, wait in 0u64..5_000, line in 1u64..100) {
            let (mut served, mut came) = (0, Vec::new());
            for n in 0..lines as usize {
                let asked = if n < window as usize { 0 } else { came[n - window as usize] };
                served = u64::max(served, asked) + line;
                came.push(served + wait);
            }
            prop_assert_eq!(last_of(lines, window, T(wait), T(line)), T(came[lines as usize - 1]));
        }

        /// Compares the formula with single loads of each line, over interleaved memories, if all lines may be
        /// outstanding at once.
        #[test]
        fn lines_of_several_memories_are_arithmetic(hosts in 1u32..6, address in 0u64..64, granules in 1u64..24, core in 0u32..6) {
            let (core, address, bytes) = (core % hosts, address * 256, granules * 256);
            let mut spec = unrack_rack::HostSpec::default();
            spec.memory.outstanding_loads = 1 << 16;
            let together = memory(hosts, spec.clone()).load(T(0), core, ByteLocation::Buffer(0, address), bytes);
            let mut apart = memory(hosts, spec);
            let each = (0..bytes / LINE).map(|n| apart.load(T(0), core, ByteLocation::Buffer(0, address + n * LINE), LINE));
            let last = each.max().unwrap();
            // Pieces of several memories cross the port of the core one after the other, but single lines cross in the
            // order in which they arrive. The results are equal except for the time of a line on the port.
            let apart_by = together.as_ps().abs_diff(last.as_ps());
            prop_assert!(apart_by <= 2 * 64 * 16, "{together} {last}");
        }
    }
}
