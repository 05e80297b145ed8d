//! Summary of `unrack run`: lines for people, an object for programs.

use super::Args;
use serde::Serialize;
use unrack_paging::{
    Calibration, CheckedProgram, Delay, LEFT_OUT, LocalMemory, NOT_AWAY, OneRun, RunReport, RunSetup, Tally,
    Weighing, expected,
};
use unrack_record::{Machine, Started, Stated, Warning};
use unrack_units::{Bytes, Rate, Time};

#[derive(Serialize)]
pub(super) struct Summary {
    version: &'static str,
    command: Vec<String>,
    /// Process from which memory was taken while it ran; below, the time until it was away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_s: Option<f64>,
    /// `None`: the program goes on, or nobody knows.
    exit_status: Option<u8>,
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
    /// Time of the native run that measured the footprint; `None` if other work disturbed it.
    native_s: Option<f64>,
    /// Run time to expect where a fetch takes `delay_ns` and nothing else, without the pager's own cost, and the times between
    /// which it is. `None` where the memory node determines the delay, or if withheld.
    expected_s: Option<f64>,
    expected_s_range: Option<[f64; 2]>,
    /// Reason why no run time to expect is given.
    expected_withheld: Option<Warning>,
    #[serde(flatten)]
    memory: LocalMemory,
    #[serde(flatten)]
    calibration: Calibration,
    #[serde(flatten)]
    tally: Tally,
    warnings: Vec<Warning>,
    machine: Machine,
}

/// Program that was run, and its results.
pub(super) struct Ran<'a> {
    pub command: Vec<String>,
    pub pid: Option<u32>,
    pub taken_s: Option<f64>,
    pub exit_status: Option<u8>,
    pub local: Bytes,
    pub footprint_bytes: Option<u64>,
    pub delay: &'a Delay,
    pub wall_s: f64,
    pub native_s: Option<f64>,
    /// `None` where the memory node determines the delay.
    pub expected: Option<Stated>,
    pub memory: LocalMemory,
    pub calibration: Calibration,
    pub tally: Tally,
    pub warnings: Vec<Warning>,
}

impl<'a> Ran<'a> {
    /// Returns what came of a program that was started.
    pub(super) fn from_run(
        args: &Args,
        job: &CheckedProgram,
        setup: &RunSetup<'a>,
        (weighing, disturbance): (Option<Weighing>, Option<Warning>),
        report: &RunReport,
    ) -> Ran<'a> {
        let native_s = weighing.and_then(|weighing| weighing.native_s());
        let concluded = || match (disturbance, weighing) {
            (Some(why), _) => Stated::withheld(disturbed(&format!("other work disturbed this run ({why})"))),
            (None, Some(weighing)) if weighing.is_disturbed => {
                Stated::withheld(disturbed("other work disturbed the native run"))
            }
            (None, _) => expected(&one_run(setup, report), native_s),
        };
        let kept = weighing.and_then(|weighing| weighing.footprint.kept_warning());
        Ran {
            command: job.words(),
            pid: None,
            taken_s: None,
            exit_status: Some(report.status.code()),
            local: setup.local,
            footprint_bytes: setup.footprint.map(Bytes::get),
            delay: setup.delay,
            wall_s: report.wall_s,
            native_s,
            expected: args.remote.is_none().then(concluded),
            memory: report.local,
            calibration: setup.calibration,
            tally: report.tally,
            warnings: [report.warnings.clone(), kept.into_iter().collect()].concat(),
        }
    }
}

/// Returns the warning that a run time to expect is withheld because of other work.
fn disturbed(what: &str) -> Warning {
    let advice = "stop other work on this machine, or keep it from the cores of this command (taskset), and run it again with \
                  --no-cache";
    Warning::new("disturbed", format!("{what}: {advice}"))
}

/// Returns what a run took.
fn one_run(setup: &RunSetup, report: &RunReport) -> OneRun {
    OneRun {
        wall_s: report.wall_s,
        lost_s: report.tally.pager_ns as f64 / 1e9,
        waits_s: report.tally.fetches as f64 * setup.delay.mean_ns() / 1e9,
        threads: report.tally.threads,
    }
}

impl Summary {
    /// Returns the summary of a run.
    pub(super) fn new(args: &Args, started: &Started, ran: Ran) -> Summary {
        let known = ran.expected.as_ref().and_then(Stated::known);
        let mut summary = Summary {
            version: env!("CARGO_PKG_VERSION"),
            command: ran.command,
            pid: ran.pid,
            taken_s: ran.taken_s,
            exit_status: ran.exit_status,
            local: args.local.to_string(),
            local_bytes: ran.local.get(),
            footprint_bytes: ran.footprint_bytes,
            delay_ns: ran.delay.mean_ns(),
            latency: args.completions.is_none().then(|| ran.delay.latency()),
            bandwidth: ran.delay.bandwidth(),
            remote: args.remote.as_ref().map(ToString::to_string),
            wall_s: ran.wall_s,
            native_s: ran.native_s,
            expected_s: known.and_then(|known| known.value),
            expected_s_range: known.and_then(|known| Some([known.low, known.high?])),
            expected_withheld: ran.expected.as_ref().and_then(Stated::reason).cloned(),
            calibration: ran.calibration,
            memory: ran.memory,
            tally: ran.tally,
            warnings: ran.warnings,
            machine: started.machine(),
        };
        summary.warnings.extend(summary.all_local());
        summary
    }

    /// Returns the note that nothing was remote, since the program needs so little.
    fn all_local(&self) -> Option<Warning> {
        let text = format!(
            "nothing was remote: {} of local memory is all that the program needs",
            size(self.local_bytes)
        );
        let Tally { fetches, write_backs, .. } = self.tally;
        let is_all = !self.warnings.iter().any(|warning| [LEFT_OUT, NOT_AWAY].contains(&&*warning.key));
        let fits =
            is_all && fetches == 0 && write_backs == 0 && self.memory.peak_local_bytes <= self.local_bytes;
        fits.then(|| Warning::new("all-local", text))
    }

    /// Returns the lines: first that the run did not do what was asked, if so; other warnings last.
    pub(super) fn lines(&self) -> Vec<String> {
        let (first, last): (Vec<_>, Vec<_>) =
            self.warnings.iter().partition(|warning| warning.key == NOT_AWAY);
        let first = first.into_iter().map(|warning| format!("WARNING: {}", warning.text));
        let last = last.into_iter().map(|warning| format!("note: {}", warning.text));
        first.chain([self.counts(), self.times()]).chain(last).collect()
    }

    fn counts(&self) -> String {
        let share = match self.footprint_bytes {
            Some(footprint) => {
                format!("{} local ({} of {})", self.local, size(self.local_bytes), size(footprint))
            }
            None => format!("{} local", self.local),
        };
        let Tally { fetches, write_backs, ahead, late, .. } = self.tally;
        let peak = size(self.memory.peak_local_bytes);
        let early = match ahead {
            0 => String::new(),
            _ => format!(" and {} ahead ({} of them too late)", thousands(ahead), thousands(late)),
        };
        format!(
            "{share}, {peak} at the peak; {} fetches{early}, {} write-backs",
            thousands(fetches),
            thousands(write_backs)
        )
    }

    fn times(&self) -> String {
        let native = self.native_s.map(|native_s| format!("; natively {native_s:.2}s")).unwrap_or_default();
        if self.pid.is_some() {
            return format!(
                "memory was away for {:.2}s, a fetch took {:.2}us",
                self.wall_s,
                self.delay_ns / 1e3
            );
        }
        let took = format!("this run took {:.2}s", self.wall_s);
        let rest = "the rest is the cost of paging in software";
        match (self.expected_s, self.expected_s_range, &self.expected_withheld) {
            (Some(expected_s), ..) => format!(
                "about {expected_s:.2}s where a fetch takes {:.2}us ({took}: {rest}){native}",
                self.delay_ns / 1e3
            ),
            (None, Some([low, high]), _) => format!(
                "{low:.2}s to {high:.2}s where a fetch takes {:.2}us ({took}: {rest}){native}",
                self.delay_ns / 1e3
            ),
            (None, None, Some(why)) => format!(
                "{took}{native}; withheld what it would take where a fetch takes {:.2}us: {}",
                self.delay_ns / 1e3,
                why.text
            ),
            (None, None, None) => format!("{took}{native}"),
        }
    }
}

/// Formats a size to four digits at most: an exact number of bytes is for programs.
pub(super) fn size(bytes: u64) -> String {
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
