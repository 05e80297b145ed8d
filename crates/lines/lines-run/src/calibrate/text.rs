//! Report of a calibration as text.

use super::{Bandwidth, Described, LevelRates, MachineCalibration, MeasuredSpread};
use std::fmt;

impl fmt::Display for MachineCalibration {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = if self.described.is_virtual { "virtual" } else { "physical" };
        writeln!(f, "{}: {} cores, {kind}", self.described.name, self.described.cores)?;
        writeln!(f, "processor preset    {}", preset(&self.described))?;
        let MeasuredSpread { min, median, max } = self.frequency_ghz;
        writeln!(f, "frequency           {median:.2} GHz ({min:.2} to {max:.2})")?;
        let per_cycle = self.additions_per_ns.median / self.frequency_ghz.median;
        writeln!(f, "additions at once   {per_cycle:.1} a cycle")?;
        for level in &self.levels {
            let seen = format!("{} of {} seen", size(level.effective_bytes), size(level.described_bytes));
            writeln!(f, "L{}                  {}, {seen}", level.level, self.time(level.load_ns))?;
        }
        writeln!(f, "memory              {}", self.time(self.memory_ns))?;
        writeln!(f, "next line           {}", self.time(self.forward_ns))?;
        writeln!(f, "  beside L2 hits    {}", self.time(self.forward_beside_hits_ns))?;
        match self.walk_ns {
            Some(walk) => writeln!(f, "page walk           {}", self.time(walk))?,
            None => writeln!(f, "page walk           unknown: the kernel gave no huge pages")?,
        }
        writeln!(f, "misses at once      {:.1}", self.most_at_once)?;
        match self.window {
            Some(operations) => writeln!(f, "window              {operations:.0} operations")?,
            None => writeln!(f, "window              unknown: misses at once are fewer")?,
        }
        for LevelRates { bytes, read_gbps, copy_gbps } in [&self.second_level, &self.last_level.rates] {
            let (read, copy) = (read_gbps.median, copy_gbps.median);
            writeln!(f, "{:<19} read {read:.1} GB/s, copy {copy:.1} GB/s", format!("in {}", size(*bytes)))?;
        }
        writeln!(f, "mispredicted branch {}", self.time(self.mispredict_ns))?;
        let kernel = (self.first_touch_ns.median, self.system_call_ns.median);
        writeln!(f, "first touch         {:.0} ns a page; system call {:.0} ns", kernel.0, kernel.1)?;
        bandwidth(f, &self.one)?;
        bandwidth(f, &self.all)?;
        match self.doubt() {
            Some(why) => writeln!(f, "DISTURBED           {why}: measure again when the machine is idle"),
            None => Ok(()),
        }
    }
}

impl MachineCalibration {
    /// Formats a latency with its spread, in nanoseconds and in cycles.
    fn time(&self, ns: MeasuredSpread) -> String {
        let cycles = ns.median * self.frequency_ghz.median;
        format!("{:.1} ns ({:.1} to {:.1}), {cycles:.1} cycles", ns.median, ns.min, ns.max)
    }
}

/// Returns a sentence that names the processor preset for this machine, and says whether it is a preset for exactly
/// this processor model.
fn preset(described: &Described) -> String {
    let newest = || described.processor().map(|processor| processor.name);
    match (described.preset(), newest()) {
        (Some(own), _) => own.into(),
        (None, Some(newest)) => format!("none for this model: {newest}, the newest of its maker, is taken"),
        (None, None) => "none for this maker".into(),
    }
}

fn bandwidth(f: &mut fmt::Formatter, bandwidth: &Bandwidth) -> fmt::Result {
    let gbps = |spread: MeasuredSpread| format!("{:.1} GB/s", spread.median);
    let past = bandwidth.nontemporal_gbps.map_or("unknown".into(), gbps);
    let [read, write, copy] = [bandwidth.read_gbps, bandwidth.write_gbps, bandwidth.copy_gbps].map(gbps);
    let threads = format!("{} thread{}", bandwidth.threads, if bandwidth.threads == 1 { "" } else { "s" });
    writeln!(f, "{threads:<19} read {read}, write {write}, write past caches {past}, copy {copy}")
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_that_is_taken_is_named() {
        let of = |vendor: &str, family, model| {
            preset(&Described { vendor: vendor.into(), family, model, ..Described::from_cpuinfo("") })
        };
        assert_eq!(of("AuthenticAMD", 0x19, 0x11), "zen4");
        assert!(of("GenuineIntel", 6, 0xa7).starts_with("none for this model: sapphire-rapids"));
        assert_eq!(of("Other", 1, 1), "none for this maker");
    }
}
