//! Calibration of this machine: measures the latencies, sizes and bandwidths of caches and memory, and costs of the
//! core and of the kernel.
//!
//! The kernel describes the caches, but only a measurement shows what performance a program obtains. For example, a
//! virtual machine shares its last cache level with other machines, and its clock frequency differs from the data
//! sheet. Each quantity is measured in several rounds, and the median of the rounds is used. Times on one core are CPU
//! times of the measuring thread.
//!
//! | module | measures |
//! |---|---|
//! | [`described`] | no measurement: reads the kernel's description of the caches |
//! | [`reach`] | how large a working set must be so that memory serves its loads |
//! | [`curve`] | latency by working set, from which the latency and size of each cache level are derived |
//! | [`overlap`] | number of cache misses in flight |
//! | [`bandwidth`] | bytes per second |
//! | [`walk`] | no measurement: derives the cost of page walks from the curves for small and for huge pages |
//! | [`window`] | number of operations in the window in which cache misses overlap |
//! | [`pipeline`] | frequency, rate of additions, mispredicted branches, first touches, system calls |

mod bandwidth;
mod bypass;
mod chase;
mod clock;
mod curve;
mod described;
mod error;
mod kept;
mod memory;
mod overlap;
mod pipeline;
mod reach;
mod spread;
mod text;
mod walk;
mod window;

pub use bandwidth::Bandwidth;
pub use curve::{CacheLevel, LatencyPoint};
pub use described::{Described, DescribedCache};
pub use error::CalibrateError;
pub use overlap::Overlap;
pub use spread::MeasuredSpread;

use memory::{Memory, PageSize};
use serde::{Deserialize, Serialize};
use unrack_lines::processor::{InclusionPolicy, Processor};

/// Number of rounds in which each quantity is measured.
const ROUNDS: usize = 7;
/// Maximum size of the working set for measurements within the last cache level, as a multiple of the size of the level
/// before it.
const SHARE_OF_LAST: usize = 3;
/// Fraction by which the measured size of a cache may exceed its real size. An excess is possible because the step of
/// the latency curve at which a level ends is not sharp.
const TOLERATED: f64 = 0.05;
/// Memory per thread for the measurement of memory bandwidth, as a multiple of the size of the last cache level. It is
/// large enough that few accesses hit that level.
const BANDWIDTH_LEVELS: u64 = 4;

/// Caches, memory and core of a machine, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCalibration {
    /// Processor and caches as described by the kernel.
    pub described: Described,
    /// Frequency of a busy core, in GHz.
    pub frequency_ghz: MeasuredSpread,
    /// Number of independent integer additions that a core executes per nanosecond. If another hardware thread is
    /// running on the same core, the number is lower than the capability of the core.
    pub additions_per_ns: MeasuredSpread,
    /// Measured cache levels, in the order from the nearest to the core to the last level.
    pub levels: Vec<CacheLevel>,
    /// Latency of a load that memory serves, in nanoseconds. If the kernel provides huge pages, the latency excludes
    /// the page walk.
    pub memory_ns: MeasuredSpread,
    /// Latency of loads for each size of the working set, measured in pages of 4 KiB.
    pub small_pages: Vec<LatencyPoint>,
    /// Latency of loads for each size of the working set, measured in pages of 2 MiB; empty if the kernel provides no
    /// such pages.
    pub huge_pages: Vec<LatencyPoint>,
    /// Time that a page walk adds to a load from memory if the second-level TLB misses, in nanoseconds; `None` if the
    /// kernel provides no huge pages.
    pub walk_ns: Option<MeasuredSpread>,
    /// Time per load for several numbers of simultaneous pointer chases in memory.
    pub overlaps: Vec<Overlap>,
    /// Maximum number of cache misses in flight, derived from the throughput of simultaneous pointer chases.
    pub most_at_once: f64,
    /// Number of operations in the instruction window in which cache misses overlap; `None` if something else limits
    /// their overlap.
    pub window: Option<f64>,
    /// Bandwidth within the second cache level.
    pub second_level: LevelRates,
    /// Throughput of loads that the last cache level serves.
    pub last_level: LastLevel,
    /// Latency of a load of the line that follows in memory, in nanoseconds. This is the part of the memory latency
    /// that the prefetchers do not hide.
    pub forward_ns: MeasuredSpread,
    /// Latency of a load of the line that follows in memory, in nanoseconds, if each such load is accompanied by two
    /// loads that hit the second cache level.
    pub forward_beside_hits_ns: MeasuredSpread,
    /// Memory bandwidth of one thread.
    pub one: Bandwidth,
    /// Memory bandwidth of several threads, one for each core that this process may use.
    pub all: Bandwidth,
    /// Time that a mispredicted branch adds, in nanoseconds, measured from the load on whose value the branch depends.
    pub mispredict_ns: MeasuredSpread,
    /// Time of the first touch of a 4 KiB page, in nanoseconds, including the release of its memory.
    pub first_touch_ns: MeasuredSpread,
    /// Time of a system call that does nothing, in nanoseconds.
    pub system_call_ns: MeasuredSpread,
    /// Description of other work on the machine that disturbed the measurement; `None` if there was no such work. If
    /// the measurement was disturbed, the numbers may be those of a busy machine.
    #[serde(default)]
    pub disturbance: Option<String>,
}

/// Bandwidth of one thread within a cache level. The working set is smaller than this level and larger than the
/// previous level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelRates {
    /// Size of the working set in bytes.
    pub bytes: u64,
    /// Reads of successive words, in 10^9 bytes per second.
    pub read_gbps: MeasuredSpread,
    /// Copies of successive words, in 10^9 bytes per second. Each copied byte counts twice, because it is read and
    /// written.
    pub copy_gbps: MeasuredSpread,
}

/// Throughput of loads that the last cache level serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastLevel {
    /// Bandwidth of successive words.
    pub rates: LevelRates,
    /// Time per load for several numbers of simultaneous pointer chases within the level.
    pub overlaps: Vec<Overlap>,
}

impl LevelRates {
    /// Returns the maximum rate at which lines arrive from the cache level, in 10^9 bytes per second. For copies, the
    /// number of bytes moved is equal to the number of bytes that arrive. The reason is that two lines arrive for each
    /// copied line: the line that is read, and the line that the write allocates.
    pub fn gb_s(&self) -> f64 {
        self.read_gbps.median.max(self.copy_gbps.median)
    }

    fn measured(region: &mut [u8]) -> LevelRates {
        let (read_gbps, copy_gbps) = bandwidth::cached(region, ROUNDS);
        LevelRates { bytes: region.len() as u64, read_gbps, copy_gbps }
    }
}

/// Returns a part of `memory` whose size is between the sizes of the last two of `levels`, so that the last one serves
/// its loads.
fn between<'a>(memory: &'a mut Memory, levels: &[CacheLevel]) -> &'a mut [u8] {
    let wanted = size_between(levels) / chase::LINE * chase::LINE;
    let bytes = wanted.clamp(64 * chase::LINE, memory.bytes().len());
    &mut memory.bytes_mut()[..bytes]
}

/// Returns the geometric mean of the sizes of the last two of `levels`. If these include the last level of the machine,
/// the mean is limited to [`SHARE_OF_LAST`] times the size of the level before it. The reason for the limit is that
/// other users share the last level, and may a second later occupy a part of the measured capacity.
fn size_between(levels: &[CacheLevel]) -> usize {
    let sizes: Vec<f64> = levels.iter().rev().take(2).map(|level| level.effective_bytes as f64).collect();
    let mean = sizes.iter().product::<f64>().powf(1.0 / sizes.len() as f64) as usize;
    match levels {
        [_, .., before, _] => mean.min(SHARE_OF_LAST * before.effective_bytes as usize),
        _ => mean,
    }
}

impl MachineCalibration {
    /// Returns the stored calibration of this machine, if it was measured since the last boot. Only the clock frequency
    /// is measured again, because it changes within minutes and its measurement takes only milliseconds.
    pub fn kept() -> Option<MachineCalibration> {
        kept::get().map(|kept| kept.at(pipeline::frequency_ghz(ROUNDS)))
    }

    /// Converts the calibration to another clock frequency of the core. Quantities that take a fixed number of cycles
    /// are scaled: additions, the first two cache levels, and mispredicted branches. The times of the last level, of
    /// memory and of the kernel do not change.
    fn at(mut self, frequency_ghz: MeasuredSpread) -> MachineCalibration {
        let longer = self.frequency_ghz.median / frequency_ghz.median;
        for level in self.levels.iter_mut().filter(|level| level.level <= 2) {
            level.load_ns = level.load_ns.times(longer);
        }
        let second = &mut self.second_level;
        second.read_gbps = second.read_gbps.times(1.0 / longer);
        second.copy_gbps = second.copy_gbps.times(1.0 / longer);
        self.mispredict_ns = self.mispredict_ns.times(longer);
        self.additions_per_ns = self.additions_per_ns.times(1.0 / longer);
        MachineCalibration { frequency_ghz, ..self }
    }

    /// Stores the calibration for later use, until the next boot.
    pub fn keep(&self) {
        kept::put(self);
    }

    /// Returns the reason why the numbers should not be relied on: other work disturbed the measurement, or a number is
    /// impossible. Returns `None` if there is no such reason.
    pub fn doubt(&self) -> Option<String> {
        self.disturbance.clone().or_else(|| {
            // The first two levels belong to the core. The last level is shared, and may be larger than the kernel
            // reports.
            let impossible = |level: &&CacheLevel| {
                level.level <= 2
                    && level.effective_bytes as f64 > level.described_bytes as f64 * (1.0 + TOLERATED)
            };
            let level = self.levels.iter().find(impossible)?;
            let [seen, described] = [level.effective_bytes, level.described_bytes].map(|bytes| bytes >> 10);
            Some(format!("level {} seemed to have {seen} KiB, where it has {described}", level.level))
        })
    }

    /// Measures this machine. The measurement takes up to a quarter of a minute if the machine is idle.
    ///
    /// # Errors
    /// [`CalibrateError::Memory`] if memory cannot be allocated, and other errors if the kernel's description of the
    /// caches is not plausible.
    pub fn measured() -> Result<MachineCalibration, CalibrateError> {
        let described = Described::this();
        let core = std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                stay_on_this_core();
                OneCore::measured(&described)
            });
            core.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let bytes = (BANDWIDTH_LEVELS * core.last_bytes) as usize;
        let all = bandwidth::measure(described.cores, bytes, ROUNDS)?;
        core.joined(described, all)
    }

    /// Returns the processor to simulate. The size of its last cache level is the part of this machine's level that a
    /// program obtains, and its stream prefetcher has the measured reach. Returns `None` if this machine's vendor is
    /// unknown.
    pub fn processor(&self) -> Option<Processor> {
        let processor = self.described.processor()?.with_streams(
            self.memory_ns.median,
            self.forward_ns.median,
            self.forward_beside_hits_ns.median,
        );
        let last = self.levels.iter().find(|level| level.level == 3);
        let Some(last) = last else { return Some(processor) };
        // If the last level only holds victims of the second level, a working set may fit because it is partly in the
        // second level.
        let others = if processor.l3_content == InclusionPolicy::Victims { processor.l2.bytes } else { 0 };
        let bytes = last.effective_bytes.min(last.described_bytes).saturating_sub(others);
        Some(processor.with_last_level(bytes))
    }

    /// Returns whether the measured values are finite and in order, so that they can be used in computations.
    fn is_sound(&self) -> bool {
        let points = self.small_pages.iter().chain(&self.huge_pages).map(|point| point.load_ns);
        let levels = self.levels.iter().map(|level| level.load_ns);
        let single = [self.frequency_ghz, self.memory_ns, self.mispredict_ns, self.first_touch_ns];
        single.into_iter().chain(points).chain(levels).all(|spread| spread.is_sound())
    }
}

/// Results of the measurements on one core.
struct OneCore {
    /// Size of the last cache level in bytes. It is smaller than the real size if memory already serves working sets of
    /// twice the smaller size.
    last_bytes: u64,
    frequency_ghz: MeasuredSpread,
    additions_per_ns: MeasuredSpread,
    small_pages: Vec<LatencyPoint>,
    huge_pages: Vec<LatencyPoint>,
    overlaps: Vec<Overlap>,
    window: Option<f64>,
    second_level: LevelRates,
    last_level: LastLevel,
    forward_ns: MeasuredSpread,
    forward_beside_hits_ns: MeasuredSpread,
    one: Bandwidth,
    mispredict_ns: MeasuredSpread,
    first_touch_ns: MeasuredSpread,
    system_call_ns: MeasuredSpread,
}

impl OneCore {
    fn measured(described: &Described) -> Result<OneCore, CalibrateError> {
        let last = reach::last_bytes(described.last_level_bytes())?;
        let available = available_bytes(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
        let mut small = curve::room(last, available, PageSize::Small)?;
        let small_pages = curve::measure(&mut small, ROUNDS);
        let mut memory = drop_for(small, || curve::room(last, available, PageSize::Huge))?;
        let huge_pages = if memory.is_huge() { curve::measure(&mut memory, ROUNDS) } else { Vec::new() };
        let points = if huge_pages.is_empty() { &small_pages } else { &huge_pages };
        let reading = curve::read(points, &described.caches, last)?;
        let second = reading.levels.len().min(2);
        let second_level = LevelRates::measured(between(&mut memory, &reading.levels[..second]));
        let second_bytes = second_level.bytes as usize;
        let region = between(&mut memory, &reading.levels);
        let last_level =
            LastLevel { overlaps: overlap::measure(region, ROUNDS), rates: LevelRates::measured(region) };
        let memory_ns = reading.memory_ns.median;
        // Another hardware thread of the core may start and stop during the calibration, and takes a part of the window
        // and of the operations. The two are therefore measured at several times.
        let mut additions = vec![pipeline::additions_per_ns(ROUNDS)];
        let first = window::measure(memory.bytes(), memory_ns, ROUNDS);
        let overlaps = overlap::measure(memory.bytes_mut(), ROUNDS);
        additions.push(pipeline::additions_per_ns(ROUNDS));
        let second = window::measure(memory.bytes(), memory_ns, ROUNDS);
        let forward_ns = pipeline::forward_ns(memory.bytes_mut(), ROUNDS);
        let forward_beside_hits_ns =
            pipeline::forward_beside_hits_ns(memory.bytes_mut(), second_bytes, ROUNDS);
        additions.push(pipeline::additions_per_ns(ROUNDS));
        let third = window::measure(memory.bytes(), memory_ns, ROUNDS);
        let windows: Option<Vec<f64>> = [first, second, third].into_iter().collect();
        drop(memory);
        Ok(OneCore {
            last_bytes: last,
            second_level,
            last_level,
            window: windows.map(|windows| MeasuredSpread::new(windows).median),
            frequency_ghz: pipeline::frequency_ghz(ROUNDS),
            additions_per_ns: MeasuredSpread::new(additions.iter().map(|spread| spread.median).collect()),
            small_pages,
            huge_pages,
            overlaps,
            forward_ns,
            forward_beside_hits_ns,
            one: bandwidth::measure(1, (BANDWIDTH_LEVELS * last) as usize, ROUNDS)?,
            mispredict_ns: pipeline::mispredict_ns(ROUNDS),
            first_touch_ns: pipeline::first_touch_ns(ROUNDS)?,
            system_call_ns: pipeline::system_call_ns(ROUNDS),
        })
    }

    /// Evaluates the latency curves, and combines the results on one core with the description and with the bandwidth
    /// of all cores.
    fn joined(self, described: Described, all: Bandwidth) -> Result<MachineCalibration, CalibrateError> {
        let clean = if self.huge_pages.is_empty() { &self.small_pages } else { &self.huge_pages };
        let reading = curve::read(clean, &described.caches, self.last_bytes)?;
        let reach = described.processor().map(|processor| processor.l2_tlb.reach());
        let last_seen = reading.levels.last().map_or(0, |level| level.effective_bytes);
        let walk = |reach| walk::read(&self.small_pages, &self.huge_pages, reach, last_seen);
        let walk_ns = reach.and_then(walk);
        Ok(MachineCalibration {
            frequency_ghz: self.frequency_ghz,
            additions_per_ns: self.additions_per_ns,
            levels: reading.levels,
            memory_ns: reading.memory_ns,
            walk_ns,
            second_level: self.second_level,
            last_level: self.last_level,
            window: self.window,
            small_pages: self.small_pages,
            huge_pages: self.huge_pages,
            most_at_once: overlap::most_at_once(&self.overlaps).unwrap_or(1.0),
            overlaps: self.overlaps,
            forward_ns: self.forward_ns,
            forward_beside_hits_ns: self.forward_beside_hits_ns,
            one: self.one,
            all,
            mispredict_ns: self.mispredict_ns,
            first_touch_ns: self.first_touch_ns,
            system_call_ns: self.system_call_ns,
            described,
            disturbance: None,
        })
    }
}

/// Releases memory before `then` allocates other memory.
fn drop_for<T>(old: Memory, then: impl FnOnce() -> T) -> T {
    drop(old);
    then()
}

/// Pins this thread to the core on which it is running, if the kernel allows it.
fn stay_on_this_core() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(rustix::thread::sched_getcpu());
    // Without pinning, the spread is larger but the median is just as good.
    let _ = rustix::thread::sched_setaffinity(None, &core);
}

/// Returns `MemAvailable` of /proc/meminfo in bytes, or 0 if it is missing.
fn available_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(value: f64) -> MeasuredSpread {
        MeasuredSpread { min: value, median: value, max: value }
    }

    /// Returns a calibration with a value in each field.
    pub(super) fn example() -> MachineCalibration {
        let bandwidth = Bandwidth {
            threads: 1,
            read_gbps: flat(10.0),
            write_gbps: flat(5.5),
            nontemporal_gbps: Some(flat(8.25)),
            copy_gbps: flat(9.0),
        };
        let caches = vec![DescribedCache { level: 1, bytes: 32 << 10, ways: 8, sets: 64, shared_by: 1 }];
        let level =
            CacheLevel { level: 1, described_bytes: 32 << 10, effective_bytes: 32 << 10, load_ns: flat(1.5) };
        MachineCalibration {
            described: Described {
                name: "Example".into(),
                vendor: "AuthenticAMD".into(),
                family: 25,
                model: 1,
                is_virtual: true,
                cores: 2,
                caches,
            },
            frequency_ghz: flat(3.0),
            additions_per_ns: flat(12.0),
            levels: vec![level],
            memory_ns: flat(110.0),
            small_pages: vec![LatencyPoint { bytes: 4096, load_ns: flat(1.5) }],
            huge_pages: Vec::new(),
            walk_ns: None,
            overlaps: vec![Overlap { chases: 1, load_ns: flat(110.0) }],
            window: Some(200.0),
            second_level: LevelRates { bytes: 128 << 10, read_gbps: flat(90.0), copy_gbps: flat(80.0) },
            last_level: LastLevel {
                rates: LevelRates { bytes: 4 << 20, read_gbps: flat(60.0), copy_gbps: flat(50.0) },
                overlaps: vec![Overlap { chases: 1, load_ns: flat(15.0) }],
            },
            most_at_once: 1.0,
            forward_ns: flat(8.0),
            forward_beside_hits_ns: flat(9.0),
            one: bandwidth.clone(),
            all: bandwidth,
            mispredict_ns: flat(6.0),
            first_touch_ns: flat(250.0),
            system_call_ns: flat(90.0),
            disturbance: None,
        }
    }

    #[test]
    fn a_calibration_of_a_busy_machine_is_marked() {
        assert_eq!(example().doubt(), None);
        let busy = MachineCalibration { disturbance: Some("other work took a core".into()), ..example() };
        assert!(
            busy.doubt().unwrap().contains("other work") && busy.to_string().contains("DISTURBED"),
            "{busy}"
        );
        let mut impossible = example();
        impossible.levels[0].effective_bytes = 36 << 10;
        let why = impossible.doubt().unwrap();
        assert!(why.contains("36 KiB, where it has 32") && impossible.to_string().contains(&why), "{why}");
        impossible.levels[0].level = 3;
        assert_eq!(
            impossible.doubt(),
            None,
            "a virtual machine may get more of the last level than it is told"
        );
    }

    #[test]
    fn numbers_that_are_none_are_not_sound() {
        assert!(example().is_sound());
        assert!(!MachineCalibration { memory_ns: flat(f64::NAN), ..example() }.is_sound());
    }

    #[test]
    fn working_sets_lie_between_levels_and_use_a_part_of_a_last_level() {
        let size = |kib: &[u64]| {
            let of = |(level, kib): (u8, &u64)| CacheLevel {
                level,
                described_bytes: kib << 10,
                effective_bytes: kib << 10,
                load_ns: flat(1.0),
            };
            let levels: Vec<CacheLevel> = (1..).zip(kib).map(of).collect();
            size_between(&levels) >> 10
        };
        assert_eq!(size(&[32, 512]), 128);
        assert_eq!(size(&[32, 1024, 4096]), 2048);
        assert_eq!(size(&[32, 1024, 18 << 10]), 3072, "others take their part");
        assert_eq!(size(&[32, 512, 512]), 512, "all of the last level is the others'");
    }

    #[test]
    fn another_frequency_keeps_cycles_of_the_core_and_times_of_memory() {
        let (before, after) = (example(), example().at(flat(4.5)));
        let cycles = |of: &MachineCalibration| {
            [of.levels[0].load_ns, of.mispredict_ns].map(|ns| (ns.median * of.frequency_ghz.median).round())
        };
        assert_eq!(cycles(&after), cycles(&before));
        assert_eq!(after.additions_per_ns, flat(18.0));
        assert_eq!(after.second_level.copy_gbps.median, before.second_level.copy_gbps.median * 1.5);
        assert_eq!((after.memory_ns, after.last_level), (before.memory_ns, before.last_level));
    }

    #[test]
    fn memory_left_is_read() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), 2 << 20);
        assert_eq!(available_bytes("MemAvailable: much\n"), 0);
    }

    #[test]
    fn the_text_names_each_quantity_with_its_unit() {
        let text = example().to_string();
        for part in
            ["Example", "zen3", "3.00 GHz", "110.0 ns", "L1", "32 KiB", "8.2 GB/s", "6.0 ns", "250 ns"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
