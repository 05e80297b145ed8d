//! Measurement of this machine: latencies, capacities, bandwidths, and costs of the core and the kernel.
//!
//! The kernel says what the caches are, a measurement says what a program gets of them: a virtual machine shares its
//! last level with strangers, and its frequency is not that of the data sheet. Each quantity is measured in several
//! rounds, of which the median counts. Times on one core are those that the thread itself ran.
//!
//! | module | measures |
//! |---|---|
//! | [`described`] | nothing: reads what the kernel says |
//! | [`reach`] | how large a working set must be to come from memory |
//! | [`curve`] | latency by working set; from it, latency and size of each level |
//! | [`overlap`] | misses under way at once |
//! | [`bandwidth`] | bytes per second |
//! | [`walk`] | nothing: reads page walks from the curves of small and of huge pages |
//! | [`window`] | operations in the window in which misses overlap |
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
pub use curve::{LatencyPoint, Level};
pub use described::{Described, DescribedCache};
pub use error::CalibrateError;
pub use overlap::Overlap;
pub use spread::Spread;

use memory::{Memory, Pages};
use serde::{Deserialize, Serialize};
use unrack_lines::processor::{Content, Processor};

/// Rounds of each measurement.
const ROUNDS: usize = 7;
/// Size of working sets in the last level at most, by that of the level before it.
const SHARE_OF_LAST: usize = 3;
/// Part by which a cache may seem larger than it is: the step of the curve that its size is read from is not sharp.
const TOLERATED: f64 = 0.05;
/// Memory of each thread whose bandwidth is measured, in sizes of the last cache level: enough that little of it is hit.
const BANDWIDTH_LEVELS: u64 = 4;

/// Caches, memory and core of a machine, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCalibration {
    /// Machine by the kernel's account.
    pub described: Described,
    /// Frequency of a core that runs, in GHz.
    pub frequency_ghz: Spread,
    /// Independent additions of whole numbers that a core does in a nanosecond: fewer than it could where another thread runs on its
    /// other half.
    pub additions_per_ns: Spread,
    /// Cache levels, nearest first.
    pub levels: Vec<Level>,
    /// Latency of a load from memory, in nanoseconds, without the cost of its page's walk where the kernel gives huge
    /// pages.
    pub memory_ns: Spread,
    /// Latency by working set in pages of 4 KiB.
    pub small_pages: Vec<LatencyPoint>,
    /// Latency by working set in pages of 2 MiB; empty where the kernel gives none.
    pub huge_pages: Vec<LatencyPoint>,
    /// Time of a page walk beyond the second-level TLB while the data come from memory, in nanoseconds; `None` where huge pages are lacking.
    pub walk_ns: Option<Spread>,
    /// Throughput of several chases at once in memory.
    pub overlaps: Vec<Overlap>,
    /// Misses under way at most, by the throughput of chases.
    pub most_at_once: f64,
    /// Operations in the window in which misses overlap; `None` if something else limits them.
    pub window: Option<f64>,
    /// Rates within the second level.
    pub second_level: LevelRates,
    /// Throughput of loads from the last level.
    pub last_level: LastLevel,
    /// Latency of a load of the next line in memory, in nanoseconds: what prefetchers leave of it.
    pub forward_ns: Spread,
    /// Latency of such a load while the second level is asked for two lines beside each.
    pub forward_beside_hits_ns: Spread,
    /// Bandwidth of one thread.
    pub one: Bandwidth,
    /// Bandwidth of as many threads as this process may use cores.
    pub all: Bandwidth,
    /// Time that a mispredicted branch adds, in nanoseconds, from the load that it depends on.
    pub mispredict_ns: Spread,
    /// First touch of a page of 4 KiB, in nanoseconds, with the return of its memory.
    pub first_touch_ns: Spread,
    /// System call that does nothing, in nanoseconds.
    pub system_call_ns: Spread,
    /// Other work that disturbed the measurement, if it did: numbers may be those of a busy machine.
    #[serde(default)]
    pub disturbance: Option<String>,
}

/// Rates of one thread in a working set between the sizes of a level and of the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelRates {
    /// Working set in bytes.
    pub bytes: u64,
    /// Reads of successive words, in 10^9 bytes per second.
    pub read_gbps: Spread,
    /// Copies of successive words, in 10^9 bytes per second: a byte read and written counts twice.
    pub copy_gbps: Spread,
}

/// Throughput of loads from the last level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastLevel {
    /// Rates of successive words.
    pub rates: LevelRates,
    /// Throughput of several chases at once.
    pub overlaps: Vec<Overlap>,
}

impl LevelRates {
    /// Returns the greatest rate at which lines come from the last level, in 10^9 bytes per second. The bytes that a copy moves
    /// are as many as those that it reads, with the lines that its writes allocate.
    pub fn gb_s(&self) -> f64 {
        self.read_gbps.median.max(self.copy_gbps.median)
    }

    fn measured(region: &mut [u8]) -> LevelRates {
        let (read_gbps, copy_gbps) = bandwidth::cached(region, ROUNDS);
        LevelRates { bytes: region.len() as u64, read_gbps, copy_gbps }
    }
}

/// Returns memory of the size between those of the level at the end of `levels` and of the one before it.
fn between<'a>(memory: &'a mut Memory, levels: &[Level]) -> &'a mut [u8] {
    let wanted = size_between(levels) / chase::LINE * chase::LINE;
    let bytes = wanted.clamp(64 * chase::LINE, memory.bytes().len());
    &mut memory.bytes_mut()[..bytes]
}

/// Returns the geometric mean of the sizes of the last two of `levels`. Of a last level, which others use too, it is at most
/// [`SHARE_OF_LAST`] times the one before: what it gave while its size was measured, it need not give a second later.
fn size_between(levels: &[Level]) -> usize {
    let sizes: Vec<f64> = levels.iter().rev().take(2).map(|level| level.effective_bytes as f64).collect();
    let mean = sizes.iter().product::<f64>().powf(1.0 / sizes.len() as f64) as usize;
    match levels {
        [_, .., before, _] => mean.min(SHARE_OF_LAST * before.effective_bytes as usize),
        _ => mean,
    }
}

impl MachineCalibration {
    /// Returns what was measured since the machine started, if anything was, but for the frequency: it is measured in milliseconds, and
    /// changes within minutes.
    pub fn kept() -> Option<MachineCalibration> {
        kept::get().map(|kept| kept.at(pipeline::frequency_ghz(ROUNDS)))
    }

    /// Returns the calibration for another frequency of the core. What takes a number of cycles scales with it: additions, the first two
    /// levels and mispredicted branches. The last level, memory and the kernel keep their times.
    fn at(mut self, frequency_ghz: Spread) -> MachineCalibration {
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

    /// Keeps the result for the next time, until the machine starts again.
    pub fn keep(&self) {
        kept::put(self);
    }

    /// Returns why its numbers should not be relied on: other work disturbed the measurement, or a number is impossible.
    pub fn doubt(&self) -> Option<String> {
        self.disturbance.clone().or_else(|| {
            // The first two levels belong to the core. The last is shared, and may be larger than the kernel says.
            let impossible = |level: &&Level| {
                level.level <= 2
                    && level.effective_bytes as f64 > level.described_bytes as f64 * (1.0 + TOLERATED)
            };
            let level = self.levels.iter().find(impossible)?;
            let [seen, described] = [level.effective_bytes, level.described_bytes].map(|bytes| bytes >> 10);
            Some(format!("level {} seemed to have {seen} KiB, where it has {described}", level.level))
        })
    }

    /// Measures, within a quarter of a minute if the machine is idle.
    ///
    /// # Errors
    /// [`CalibrateError::Memory`] if memory is short, others if the kernel's account of the caches is not plausible.
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

    /// Returns the processor to simulate: its last level has the size that a program gets, and its streams the reach that
    /// was measured. `None` if this machine's maker is unknown.
    pub fn processor(&self) -> Option<Processor> {
        let processor = self.described.processor()?.with_streams(
            self.memory_ns.median,
            self.forward_ns.median,
            self.forward_beside_hits_ns.median,
        );
        let last = self.levels.iter().find(|level| level.level == 3);
        let Some(last) = last else { return Some(processor) };
        // Working sets that fit are in the second level, too, where the last has only what left it.
        let others = if processor.l3_content == Content::Victims { processor.l2.bytes } else { 0 };
        let bytes = last.effective_bytes.min(last.described_bytes).saturating_sub(others);
        Some(processor.with_last_level(bytes))
    }

    /// Returns whether all numbers can be computed with.
    fn is_sound(&self) -> bool {
        let points = self.small_pages.iter().chain(&self.huge_pages).map(|point| point.load_ns);
        let levels = self.levels.iter().map(|level| level.load_ns);
        let single = [self.frequency_ghz, self.memory_ns, self.mispredict_ns, self.first_touch_ns];
        single.into_iter().chain(points).chain(levels).all(|spread| spread.is_sound())
    }
}

/// Measurements on one core.
struct OneCore {
    /// Size of the last level, or less where working sets of twice as much come from memory.
    last_bytes: u64,
    frequency_ghz: Spread,
    additions_per_ns: Spread,
    small_pages: Vec<LatencyPoint>,
    huge_pages: Vec<LatencyPoint>,
    overlaps: Vec<Overlap>,
    window: Option<f64>,
    second_level: LevelRates,
    last_level: LastLevel,
    forward_ns: Spread,
    forward_beside_hits_ns: Spread,
    one: Bandwidth,
    mispredict_ns: Spread,
    first_touch_ns: Spread,
    system_call_ns: Spread,
}

impl OneCore {
    fn measured(described: &Described) -> Result<OneCore, CalibrateError> {
        let last = reach::last_bytes(described.last_level_bytes())?;
        let available = available_bytes(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
        let mut small = curve::room(last, available, Pages::Small)?;
        let small_pages = curve::measure(&mut small, ROUNDS);
        let mut memory = drop_for(small, || curve::room(last, available, Pages::Huge))?;
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
        // Another thread of the core comes and goes, and takes a part of the window and of the operations: both are measured at several
        // times.
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
            window: windows.map(|windows| Spread::new(windows).median),
            frequency_ghz: pipeline::frequency_ghz(ROUNDS),
            additions_per_ns: Spread::new(additions.iter().map(|spread| spread.median).collect()),
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

    /// Reads the curves, and joins what was measured on one core with the rest.
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

/// Gives memory back before other memory is taken.
fn drop_for<T>(old: Memory, then: impl FnOnce() -> T) -> T {
    drop(old);
    then()
}

/// Keeps this thread on its core, where the kernel lets it.
fn stay_on_this_core() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(rustix::thread::sched_getcpu());
    // Without it the spread is larger, and the median as good.
    let _ = rustix::thread::sched_setaffinity(None, &core);
}

/// Returns `MemAvailable` of /proc/meminfo, in bytes, or 0.
fn available_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(value: f64) -> Spread {
        Spread { min: value, median: value, max: value }
    }

    /// Calibration with a value in each field.
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
            Level { level: 1, described_bytes: 32 << 10, effective_bytes: 32 << 10, load_ns: flat(1.5) };
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
            let of = |(level, kib): (u8, &u64)| Level {
                level,
                described_bytes: kib << 10,
                effective_bytes: kib << 10,
                load_ns: flat(1.0),
            };
            let levels: Vec<Level> = (1..).zip(kib).map(of).collect();
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
