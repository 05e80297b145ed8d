//! Summary of `unrack run`: a line for people, an object for programs.

use super::Args;
use serde::Serialize;
use unrack_paging::{Calibration, CheckedProgram, Footprint, RunReport, RunSetup, Tally};
use unrack_record::{Machine, Started, Warning};
use unrack_units::{Bytes, Rate, Time};

#[derive(Serialize)]
pub(super) struct Summary {
    version: &'static str,
    command: Vec<String>,
    exit_status: u8,
    /// Local memory as given: `25%` or `64MiB`.
    local: String,
    local_bytes: u64,
    /// Footprint; unknown if no native run was needed.
    footprint_bytes: Option<u64>,
    /// Mean delay of a single fetch: latency and transmission.
    delay_ns: f64,
    /// Latency; `None` if delays were drawn.
    latency: Option<Time>,
    bandwidth: Rate,
    /// Memory node, if pages came from one: its delays come on top of `delay_ns`.
    remote: Option<String>,
    wall_s: f64,
    #[serde(flatten)]
    calibration: Calibration,
    #[serde(flatten)]
    tally: Tally,
    warnings: Vec<Warning>,
    machine: Machine,
}

impl Summary {
    /// Returns the summary of a run.
    pub(super) fn from_run(
        args: &Args,
        job: &CheckedProgram,
        setup: &RunSetup,
        footprint: Option<Footprint>,
        report: &RunReport,
        started: &Started,
    ) -> Summary {
        let mut summary = Summary {
            version: env!("CARGO_PKG_VERSION"),
            command: job.words(),
            exit_status: report.status.code(),
            local: args.local.to_string(),
            local_bytes: setup.local.get(),
            footprint_bytes: footprint.map(|footprint| footprint.anonymous),
            delay_ns: setup.delay.mean_ns(),
            latency: args.completions.is_none().then(|| setup.delay.latency()),
            bandwidth: setup.delay.bandwidth(),
            remote: args.remote.as_ref().map(ToString::to_string),
            wall_s: report.wall_s,
            calibration: setup.calibration,
            tally: report.tally,
            warnings: report.warnings.clone(),
            machine: started.machine(),
        };
        summary.warnings.extend(summary.below_floor());
        summary
    }

    fn below_floor(&self) -> Option<Warning> {
        let (delay, floor) = (self.delay_ns / 1e3, self.calibration.floor_ns / 1e3);
        let text = format!(
            "a delay of {delay:.2}us is below the pager's own cost of {floor:.1}us, so this run was slower than such \
             a network: use `unrack compare`, which computes without the pager"
        );
        let is_below = self.remote.is_none() && delay < floor && self.tally.fetches > 0;
        is_below.then(|| Warning::new("below-floor", text))
    }

    /// Returns one line, warnings last.
    pub(super) fn line(&self) -> String {
        let share = match self.footprint_bytes {
            Some(footprint) => {
                format!("{} local ({} of {})", self.local, size(self.local_bytes), size(footprint))
            }
            None => format!("{} local", self.local),
        };
        let Tally { fetches, write_backs, wait_ns, .. } = self.tally;
        let mut line = format!(
            "{share}, {} fetches, {} write-backs, waited {:.2}s in {:.2}s",
            thousands(fetches),
            thousands(write_backs),
            wait_ns as f64 / 1e9,
            self.wall_s
        );
        for warning in &self.warnings {
            line.push_str("; ");
            line.push_str(&warning.text);
        }
        line
    }
}

/// Formats a size to four digits at most: an exact number of bytes is for programs.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x40_0000 => format!("{}KiB", bytes >> 10),
        _ => Bytes::new(bytes >> 20 << 20).to_string(),
    }
}

/// Formats `1234567` as `1,234,567`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(size(64 << 20), "64MiB");
        assert_eq!(size((64 << 20) + 12_345), "64MiB");
        assert_eq!(size(1 << 20), "1024KiB");
    }
}
