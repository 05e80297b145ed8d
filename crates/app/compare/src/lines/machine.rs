//! The machine as the core model sees it: a core with measured latencies, local memory, and the costs of the kernel.

use unrack_lines::core::{CoreParameters, MemoryLane, MemoryParameters, NearPages};
use unrack_lines_run::calibrate::{Bandwidth, MachineCalibration};
use unrack_record::Warning;

/// Core, memory and kernel of this machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MachineModel {
    pub core: CoreParameters,
    /// Latency of local memory, in nanoseconds.
    pub near_ns: f64,
    /// Memory rates that a single thread reaches. `all` are the rates that all threads reach together.
    one: MemoryTraffic,
    all: MemoryTraffic,
    /// Time of a system call, in seconds. `new_page_s` is the time of the first touch of a page.
    system_call_s: f64,
    new_page_s: f64,
}

impl MachineModel {
    /// Creates the machine from the preset of the processor that a recording names, with the measured numbers of this machine.
    ///
    /// # Errors
    /// If there is no model of the processor, or a measured number is out of range.
    pub(crate) fn new(processor: &str, measured: &MachineCalibration) -> Result<MachineModel, Warning> {
        let name = processor.split(':').next().unwrap_or(processor);
        let core = CoreParameters::by_name(name).map(|core| with_measured(core, measured));
        let why = match &core {
            Some(core) => core.check().err().map(|why| why.to_string()),
            None => Some(format!("there is no model of the core of {name}")),
        };
        let core = match (core, why) {
            (Some(core), None) => core,
            (_, why) => {
                let text = format!("{}: cycles are not computed", why.unwrap_or_default());
                return Err(Warning::new("no-core-model", text));
            }
        };
        Ok(MachineModel {
            core,
            near_ns: measured.memory_ns.median,
            one: MemoryTraffic::of(&measured.one),
            all: MemoryTraffic::of(&measured.all),
            system_call_s: measured.system_call_ns.median * 1e-9,
            new_page_s: measured.first_touch_ns.median * 1e-9,
        })
    }

    /// Returns a latency in cycles, rounded to sixteenths, which is the unit of the core model.
    pub(crate) fn cycles(&self, ns: f64) -> f32 {
        sixteenths(ns * self.core.frequency_ghz)
    }

    /// Returns the parameters of one of `at_once` threads that run at the same time. Remote memory has the latency `far_ns`, and the same
    /// rates as local memory.
    pub(crate) fn lane(&self, pages: NearPages, far_ns: f64, at_once: f64) -> MemoryLane {
        let frequency_ghz = self.core.frequency_ghz;
        let rates = self.one.least(self.all, at_once.max(1.0));
        let interval = |rate_gb_s| MemoryParameters::interval_of(rate_gb_s, frequency_ghz);
        let near = MemoryParameters {
            interval: interval(rates.both_gb_s),
            read_interval: interval(rates.read_gb_s),
            write_interval: interval(rates.write_gb_s),
            ..MemoryParameters::of_latency(self.near_ns, frequency_ghz)
        };
        MemoryLane { pages, near, far: MemoryParameters { latency: self.cycles(far_ns), ..near } }
    }

    /// Returns the time in the kernel for this number of system calls and new pages, in seconds.
    pub(crate) fn kernel_s(&self, system_calls: u64, new_pages: u64) -> f64 {
        system_calls as f64 * self.system_call_s + new_pages as f64 * self.new_page_s
    }
}

/// Minimum part of the loads of a working set that must miss the second-level cache for its time per miss to be computed. With a smaller
/// part, an error in the size of the cache or of the working set is multiplied by more than four.
const LEAST_MISSED: f64 = 0.25;

/// Longest turn of a thread, in cycles. Two threads of a core take turns of equal length, so a longer measured turn is due to other work on
/// the machine.
const LONGEST_TURN: f64 = 2.0;

/// Replaces the numbers of a core's preset by measured ones: the clock, the turns of the other thread of the core, the latencies of caches,
/// the page walk, the rate of the last-level cache, the window, and the number of concurrent misses.
fn with_measured(mut core: CoreParameters, measured: &MachineCalibration) -> CoreParameters {
    let frequency_ghz = measured.frequency_ghz.median;
    let cycles = |ns: f64| sixteenths(ns * frequency_ghz);
    let level = |number: u8| measured.levels.iter().find(|level| level.level == number);
    for (number, latency) in [(1, &mut core.caches.l1), (2, &mut core.caches.l2), (3, &mut core.caches.l3)] {
        if let Some(level) = level(number) {
            *latency = cycles(level.load_ns.median);
        }
    }
    core.frequency_ghz = frequency_ghz;
    // Ratio of the rate of independent additions that a core reaches with one thread to the measured rate. The threads of a core take turns
    // while they have something to dispatch (Tullsen et al., "Exploiting Choice", ISCA 1996, alternate between threads when they fetch).
    let alone = core.ports.integer.min(core.dispatch_width) as f64;
    core.turn =
        sixteenths((alone * frequency_ghz / measured.additions_per_ns.median).clamp(1.0, LONGEST_TURN));
    // Threads of one core divide its reorder buffer and its store queue (AMD, Software Optimization Guide 57647, "Simultaneous
    // multi-threading"). Therefore, if the measured window is smaller than the reorder buffer, it is the part of one thread.
    if let Some(window) = measured.window {
        let part = (window / core.reorder_buffer as f64).min(1.0);
        let of = |entries: usize| ((entries as f64 * part).round() as usize).max(1);
        (core.reorder_buffer, core.store_queue) = (of(core.reorder_buffer), of(core.store_queue));
    }
    core.fill_buffers = (measured.most_at_once.round() as usize).clamp(1, 4096);
    core.prefetch_buffers = core.prefetch_buffers.max(in_flight(measured));
    core.caches.l3_interval = sixteenths(64.0 / measured.last_level.rates.gb_s() * frequency_ghz);
    core.caches.l3_demand_interval =
        core.caches.l3_interval.max(sixteenths(demand_ns(measured).unwrap_or(0.0) * frequency_ghz));
    let second = &measured.second_level;
    core.caches.fill_interval = sixteenths(64.0 / second.gb_s() * frequency_ghz);
    // A copy loads one cache line and stores to another, so the time of the store is the time of the copy minus that of the load.
    let pair = sixteenths(2.0 * 64.0 / second.copy_gbps.median * frequency_ghz);
    core.caches.store_fill_interval = (pair - core.caches.fill_interval).max(core.caches.fill_interval);
    // A page walk in the measured working set loads one page-table entry, from the second-level cache, which holds the tables. The rest of
    // the walk's time is fixed. Under nested paging the walk is that of the host (AMD64 Architecture Programmer's Manual 24593, section
    // 15.25.5). The second-level cache holds the entry of that walk, too, unless data from memory have displaced it.
    if let Some(walk_ns) = measured.walk_ns {
        core.walk_latency = (cycles(walk_ns.median) - core.caches.l2).max(0.0);
        core.cached_walk_latency = core.walk_latency.min(core.caches.l2);
    }
    core
}

/// Returns the time between two cache lines that the last-level cache delivers for loads in random order, in nanoseconds. `None` if it was
/// not measured.
fn demand_ns(measured: &MachineCalibration) -> Option<f64> {
    let of_last = &measured.last_level;
    let second = measured.levels.iter().find(|level| level.level == 2)?;
    let second_bytes = second.effective_bytes.min(second.described_bytes);
    let least_ns = of_last.overlaps.iter().map(|overlap| overlap.load_ns.median).min_by(f64::total_cmp)?;
    beyond(least_ns, second_bytes, of_last.rates.bytes)
}

/// Returns the time per load that misses the second-level cache, computed from the time per load of a working set of `set_bytes`. If a
/// working set is accessed at random, a cache holds the part of its lines that is the ratio of the sizes, whatever its replacement policy.
/// `None` if the cache holds nearly all lines, because the few misses are not enough for an estimate.
fn beyond(load_ns: f64, second_bytes: u64, set_bytes: u64) -> Option<f64> {
    let missed = 1.0 - second_bytes as f64 / set_bytes as f64;
    (missed >= LEAST_MISSED).then(|| load_ns / missed)
}

/// Returns the number of cache lines in flight while one thread streams, by Little's law: rate times latency. The bytes that a copy moves
/// equal the bytes that it reads, including the lines that its writes allocate.
fn in_flight(measured: &MachineCalibration) -> usize {
    let rate_gb_s = measured.one.read_gbps.median.max(measured.one.copy_gbps.median);
    (rate_gb_s * measured.memory_ns.median / 64.0).round().clamp(1.0, 4096.0) as usize
}

fn sixteenths(cycles: f64) -> f32 {
    ((cycles * 16.0).round() / 16.0) as f32
}

/// Rates of memory, in 10^9 bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MemoryTraffic {
    read_gb_s: f64,
    write_gb_s: f64,
    both_gb_s: f64,
}

impl MemoryTraffic {
    /// Returns the greatest memory rates over the access patterns. A write also reads its cache line first, and a copy writes as many bytes
    /// to memory as it reads from its source.
    fn of(bandwidth: &Bandwidth) -> MemoryTraffic {
        let past = bandwidth.nontemporal_gbps.map_or(0.0, |gbps| gbps.median);
        let [read, write, copy] =
            [bandwidth.read_gbps, bandwidth.write_gbps, bandwidth.copy_gbps].map(|gbps| gbps.median);
        MemoryTraffic {
            read_gb_s: read.max(write).max(copy),
            write_gb_s: write.max(past).max(copy / 2.0),
            both_gb_s: read.max(2.0 * write).max(past).max(1.5 * copy),
        }
    }

    /// Returns the memory rates of one of `sharers` threads: each thread has at most the rates `self`, and all of them together have at
    /// most the rates `all`.
    fn least(self, all: MemoryTraffic, sharers: f64) -> MemoryTraffic {
        MemoryTraffic {
            read_gb_s: self.read_gb_s.min(all.read_gb_s / sharers),
            write_gb_s: self.write_gb_s.min(all.write_gb_s / sharers),
            both_gb_s: self.both_gb_s.min(all.both_gb_s / sharers),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Machine with round numbers: 2 GHz, local memory at 100 ns.
    pub(crate) fn machine() -> MachineModel {
        let core = CoreParameters { frequency_ghz: 2.0, ..CoreParameters::by_name("zen3").unwrap() };
        MachineModel {
            core,
            near_ns: 100.0,
            one: MemoryTraffic { read_gb_s: 20.0, write_gb_s: 10.0, both_gb_s: 25.0 },
            all: MemoryTraffic { read_gb_s: 30.0, write_gb_s: 30.0, both_gb_s: 40.0 },
            system_call_s: 1e-7,
            new_page_s: 1e-6,
        }
    }

    #[test]
    fn loads_that_the_second_level_serves_are_not_counted() {
        assert_eq!(beyond(2.4, 2 << 20, 8 << 20), Some(2.4 / 0.75));
        assert_eq!(beyond(2.4, 3 << 20, 4 << 20), Some(2.4 / 0.25));
        assert_eq!(beyond(2.4, 2 << 20, 9 << 18), None, "a last level that is hardly larger than the second");
        assert_eq!(beyond(2.4, 4 << 20, 2 << 20), None);
    }

    #[test]
    fn threads_share_memory() {
        let alone = machine().lane(NearPages::AllFar, 300.0, 1.0);
        assert_eq!((alone.near.latency, alone.far.latency), (200.0, 600.0));
        let intervals = |at_once| {
            let near = machine().lane(NearPages::AllFar, 300.0, at_once).near;
            [near.read_interval, near.write_interval, near.interval]
        };
        assert_eq!(intervals(1.0), [6.375, 12.8125, 5.125], "64 B at 20, 10 and 25 GB/s, in sixteenths");
        assert_eq!(intervals(3.0), [12.8125, 12.8125, 9.625], "64 B at 10, 10 and 13.3 GB/s");
    }

    #[test]
    fn the_kernel_takes_its_time() {
        assert!((machine().kernel_s(1000, 5000) - 5.1e-3).abs() < 1e-12);
    }
}
