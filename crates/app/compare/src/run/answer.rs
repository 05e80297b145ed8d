//! Result of one run with part of the program's memory remote.

use serde::Serialize;
use unrack_paging::{Calibration, FetchDelay, LEFT_OUT, LocalMemory, NOT_AWAY, NodeTraffic, Tally};
use unrack_record::{Machine, StartedCommand, Stated, Warning};
use unrack_units::{Bytes, Rate, Share, Time};

/// Result of a run. The fields are those of its JSON.
#[derive(Debug, Clone, Serialize)]
pub struct RunAnswer {
    pub version: &'static str,
    pub command: Vec<String>,
    /// Process from which memory was taken while it ran. `taken_s` is the time in seconds until that memory was remote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_s: Option<f64>,
    /// Exit status; `None` if the program still runs or its status is unknown.
    pub exit_status: Option<u8>,
    /// Local memory as given: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Footprint; `None` if no native run was needed.
    pub footprint_bytes: Option<u64>,
    /// Mean delay of a single fetch, including transmission.
    pub delay_ns: f64,
    /// Latency; `None` if delays were drawn from a file.
    pub latency: Option<Time>,
    pub bandwidth: Rate,
    /// Memory nodes, if pages came from some, with commas between them. Their own delays are added to `delay_ns`.
    pub remote: Option<String>,
    /// Traffic between the run and each memory node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeTraffic>,
    pub wall_s: f64,
    /// Time of the native run that measured the footprint; `None` if other work disturbed it.
    pub native_s: Option<f64>,
    /// Expected run time if each fetch takes exactly `delay_ns` and the pager itself takes no time. `expected_s_range` has its bounds.
    /// `None` if the memory node determines the delay, or if the expected time is withheld.
    pub expected_s: Option<f64>,
    pub expected_s_range: Option<[f64; 2]>,
    /// Reason why the expected run time is withheld.
    pub expected_withheld: Option<Warning>,
    #[serde(flatten)]
    pub memory: LocalMemory,
    #[serde(flatten)]
    pub calibration: Calibration,
    #[serde(flatten)]
    pub tally: Tally,
    pub warnings: Vec<Warning>,
    pub machine: Machine,
}

/// Program that was run, and its results.
pub(super) struct Ran<'a> {
    pub command: Vec<String>,
    pub pid: Option<u32>,
    pub taken_s: Option<f64>,
    pub exit_status: Option<u8>,
    /// Local memory as requested, and in bytes.
    pub share: Share,
    pub local: Bytes,
    pub footprint_bytes: Option<u64>,
    pub delay: &'a FetchDelay,
    /// Whether delays were drawn from a file.
    pub is_drawn: bool,
    /// Description of the memory nodes.
    pub remote: Option<String>,
    pub nodes: Vec<NodeTraffic>,
    pub wall_s: f64,
    pub native_s: Option<f64>,
    /// Expected run time; `None` if the memory node determines the delay.
    pub expected: Option<Stated>,
    pub memory: LocalMemory,
    pub calibration: Calibration,
    pub tally: Tally,
    pub warnings: Vec<Warning>,
}

impl RunAnswer {
    /// Creates the answer from the results of the run.
    pub(super) fn new(started: &StartedCommand, ran: Ran) -> RunAnswer {
        let known = ran.expected.as_ref().and_then(Stated::known);
        let mut answer = RunAnswer {
            version: env!("CARGO_PKG_VERSION"),
            command: ran.command,
            pid: ran.pid,
            taken_s: ran.taken_s,
            exit_status: ran.exit_status,
            local: ran.share.to_string(),
            local_bytes: ran.local.get(),
            footprint_bytes: ran.footprint_bytes,
            delay_ns: ran.delay.mean_ns(),
            latency: (!ran.is_drawn).then(|| ran.delay.latency()),
            bandwidth: ran.delay.bandwidth(),
            remote: ran.remote,
            nodes: ran.nodes,
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
        answer.warnings.extend(answer.all_local());
        answer
    }

    /// Returns the note that no page was remote, because the program needs no more than its local memory.
    fn all_local(&self) -> Option<Warning> {
        let text = format!(
            "nothing was remote: {} of local memory is all that the program needs",
            size_text(self.local_bytes)
        );
        let Tally { fetches, write_backs, .. } = self.tally;
        let is_all = !self.warnings.iter().any(|warning| [LEFT_OUT, NOT_AWAY].contains(&&*warning.key));
        let fits =
            is_all && fetches == 0 && write_backs == 0 && self.memory.peak_local_bytes <= self.local_bytes;
        fits.then(|| Warning::new("all-local", text))
    }
}

/// Formats a size with four digits at most, for people. Programs read the exact number of bytes.
pub fn size_text(bytes: u64) -> String {
    match bytes {
        0..0x40_0000 => format!("{}KiB", bytes >> 10),
        _ => Bytes::new(bytes >> 20 << 20).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_four_digits_at_most() {
        assert_eq!(size_text(64 << 20), "64MiB");
        assert_eq!(size_text((64 << 20) + 12_345), "64MiB");
        assert_eq!(size_text(1 << 20), "1024KiB");
    }
}
