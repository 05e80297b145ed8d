//! This machine as the core model takes it: a core with measured latencies, near memory, and costs of the kernel.

use unrack_lines::core::{CoreParameters, Lane, MemoryParameters, Pages};
use unrack_lines_run::calibrate::{Bandwidth, Calibration};
use unrack_record::Warning;

/// Core, memory and kernel of this machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    pub core: CoreParameters,
    /// Latency of near memory, in nanoseconds.
    pub near_ns: f64,
    /// Traffic that one thread and that all threads together reach, in 10^9 bytes per second.
    one_gb_s: f64,
    all_gb_s: f64,
    /// System call and first touch of a page, in seconds.
    system_call_s: f64,
    new_page_s: f64,
}

impl Machine {
    /// Creates the machine whose caches a recording names, with what was measured of this one.
    ///
    /// # Errors
    /// If no core of that name is known, or a measured number is out of range.
    pub(crate) fn new(processor: &str, measured: &Calibration) -> Result<Machine, Warning> {
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
        Ok(Machine {
            core,
            near_ns: measured.memory_ns.median,
            one_gb_s: traffic(&measured.one),
            all_gb_s: traffic(&measured.all),
            system_call_s: measured.system_call_ns.median * 1e-9,
            new_page_s: measured.first_touch_ns.median * 1e-9,
        })
    }

    /// Returns a latency in cycles, in whole sixteenths, as the core counts them.
    pub(crate) fn cycles(&self, ns: f64) -> f32 {
        sixteenths(ns * self.core.frequency_ghz)
    }

    /// Returns the rate at which near memory serves one of `at_once` threads, in 10^9 bytes per second.
    fn near_gb_s(&self, at_once: f64) -> f64 {
        self.one_gb_s.min(self.all_gb_s / at_once.max(1.0))
    }

    /// Returns a lane of one of `at_once` threads, whose far memory has this latency, and the rate of near memory.
    pub(crate) fn lane(&self, pages: Pages, far_ns: f64, at_once: f64) -> Lane {
        let rate_gb_s = self.near_gb_s(at_once);
        let memory = |ns| MemoryParameters::new(ns, Some(rate_gb_s), self.core.frequency_ghz);
        Lane { pages, near: memory(self.near_ns), far: memory(far_ns) }
    }

    /// Returns the time in the kernel for so many system calls and new pages, in seconds.
    pub(crate) fn kernel_s(&self, system_calls: u64, new_pages: u64) -> f64 {
        system_calls as f64 * self.system_call_s + new_pages as f64 * self.new_page_s
    }
}

/// Replaces a preset's numbers by those that were measured: the clock, the latencies of caches, and the page walk.
fn with_measured(mut core: CoreParameters, measured: &Calibration) -> CoreParameters {
    let frequency_ghz = measured.frequency_ghz.median;
    let cycles = |ns: f64| sixteenths(ns * frequency_ghz);
    let level = |number: u8| measured.levels.iter().find(|level| level.level == number);
    for (number, latency) in [(1, &mut core.caches.l1), (2, &mut core.caches.l2), (3, &mut core.caches.l3)] {
        if let Some(level) = level(number) {
            *latency = cycles(level.load_ns.median);
        }
    }
    core.frequency_ghz = frequency_ghz;
    core.prefetch_buffers = core.prefetch_buffers.max(in_flight(measured));
    // A walk in the measured working set loads one entry, from the second level, which holds the tables: the rest is fixed.
    // Under nested paging it is the host's walk (AMD64 Architecture Programmer's Manual 24593, section 15.25.5).
    if let Some(walk_ns) = measured.walk_ns {
        core.walk_latency = (cycles(walk_ns) - core.caches.l2).max(0.0);
    }
    core
}

/// Returns the lines that are on their way at once while one thread streams, by Little's law: rate times latency. The bytes
/// that a copy moves are as many as those that it reads, with the lines that its writes allocate.
fn in_flight(measured: &Calibration) -> usize {
    let rate_gb_s = measured.one.read_gbps.median.max(measured.one.copy_gbps.median);
    (rate_gb_s * measured.memory_ns.median / 64.0).round().clamp(1.0, 4096.0) as usize
}

fn sixteenths(cycles: f64) -> f32 {
    ((cycles * 16.0).round() / 16.0) as f32
}

/// Returns the greatest rate over the patterns. The lines that writes allocate are not counted, since a processor that
/// recognizes writes of whole lines reads none.
fn traffic(bandwidth: &Bandwidth) -> f64 {
    let past = bandwidth.nontemporal_gbps.map_or(0.0, |gbps| gbps.median);
    let others = [bandwidth.read_gbps, bandwidth.write_gbps, bandwidth.copy_gbps].map(|gbps| gbps.median);
    others.into_iter().fold(past, f64::max)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Machine with round numbers: 2 GHz, near memory at 100 ns.
    pub(crate) fn machine() -> Machine {
        let core = CoreParameters { frequency_ghz: 2.0, ..CoreParameters::by_name("zen3").unwrap() };
        Machine {
            core,
            near_ns: 100.0,
            one_gb_s: 20.0,
            all_gb_s: 30.0,
            system_call_s: 1e-7,
            new_page_s: 1e-6,
        }
    }

    #[test]
    fn threads_share_memory() {
        let alone = machine().lane(Pages::AllFar, 300.0, 1.0);
        assert_eq!((alone.near.latency, alone.far.latency), (200.0, 600.0));
        assert_eq!(
            (alone.near.interval, alone.far.interval),
            (6.375, 6.375),
            "64 B at 20 GB/s are 6.4 cycles"
        );
        assert_eq!(machine().lane(Pages::AllFar, 300.0, 3.0).near.interval, 12.8125, "64 B at 10 GB/s");
    }

    #[test]
    fn the_kernel_takes_its_time() {
        assert!((machine().kernel_s(1000, 5000) - 5.1e-3).abs() < 1e-12);
    }
}
