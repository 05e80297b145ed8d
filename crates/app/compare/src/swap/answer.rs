//! Answer of the check by the kernel's swap: the predicted and the measured run time.

use super::cost::{FaultCost, Touches};
use super::question::SwapQuestion;
use super::under_swap::UnderSwap;
use crate::runs::survey::{Survey, undelayed};
use serde::{Deserialize, Serialize};
use unrack_paging::quality;
use unrack_record::{Disturbance, Fit, Machine, Runs, Warning};
use unrack_units::Bytes;

/// Largest part of a run under swap that may be spent in waits for files. With a larger part, the run cannot be compared with the
/// prediction.
const THROTTLED: f64 = 0.05;

/// Contents of `swap.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwapAnswer {
    pub version: String,
    pub command: Vec<String>,
    pub local: String,
    pub local_bytes: u64,
    pub footprint_bytes: u64,
    pub device: String,
    pub native: Option<Runs>,
    /// Line fitted to the runs at injected delays.
    pub fit: Option<Fit>,
    /// Pages that Unrack's pager fetched with the same amount of local memory, without delay.
    pub fetches: u64,
    /// Runs under swap.
    pub swap: Option<Runs>,
    pub swapped: Swapped,
    pub cost: FaultCost,
    pub predicted: Option<PredictedSwap>,
    /// Predicted run time divided by the measured one, minus 1.
    pub error: Option<f64>,
    /// Value that `error` would have if the kernel had swapped in as many pages as Unrack's pager fetched.
    pub error_at_equal_faults: Option<f64>,
    /// Reason why there is no error.
    pub withheld: Option<Warning>,
    pub disturbance: Disturbance,
    pub warnings: Vec<Warning>,
    pub machine: Option<Machine>,
}

/// Swap counts of the run with the median time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Swapped {
    pub pages_in: u64,
    pub pages_out: u64,
    /// Pages that the kernel scanned to find the pages to swap out.
    pub pages_scanned: u64,
    pub peak_local_bytes: u64,
    /// Peak of page cache and kernel memory, which are not part of `peak_local_bytes`.
    pub peak_other_bytes: u64,
    /// Memory by which the limit was raised, because the program could not continue within it.
    pub relief_bytes: u64,
    /// Time for which threads waited until changed pages of files were written, in seconds.
    pub throttled_s: f64,
    /// Compression ratio of the pages (uncompressed size over compressed size), if the device compresses.
    pub compression: Option<f64>,
}

/// Predicted run time under swap, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictedSwap {
    pub run_s: f64,
    /// Interval of the run time. It combines the intervals of the fitted line and of the cost of a fault with the range of the native runs.
    pub run_ci95_s: [f64; 2],
    /// Mean number of faults in flight at the same time: fetches divided by the waits of the fitted line.
    pub overlap: f64,
    /// Cost of a fault at this overlap, in ns.
    pub fault_ns: f64,
    /// Part of `run_s` in which threads wait for faults.
    pub faults_s: f64,
    /// Part of `run_s` in which pages are swapped out to make room for new pages. A memory blade would receive such pages in the
    /// background.
    pub outs_s: f64,
}

impl SwapAnswer {
    pub(super) fn conclude(
        question: &SwapQuestion,
        survey: &Survey,
        local: Bytes,
        under_swap: UnderSwap,
        cost: FaultCost,
    ) -> SwapAnswer {
        let (native, conclusion) = (survey.native(), survey.conclude(local));
        let counts = under_swap.counts();
        let swapped = Swapped {
            pages_in: counts.ins,
            pages_out: counts.outs,
            pages_scanned: counts.scanned,
            peak_local_bytes: counts.peak_anonymous,
            peak_other_bytes: counts.peak_other,
            relief_bytes: counts.relief,
            throttled_s: counts.throttled_ns as f64 / 1e9,
            compression: counts.compression,
        };
        let swap = under_swap.runs(survey);
        let unfit = swap
            .as_ref()
            .ok()
            .and_then(|swap| throttled(&swapped, swap.median_s).or(not_away(&swapped, local)));
        let fetches = survey.kept.get(undelayed(local)).map_or(0, |done| done.fetches);
        // A rough fitted line is too uncertain to judge a prediction.
        let line = conclusion.rough.as_ref().map_or_else(|| conclusion.line(), Err);
        let predicted = match (&native, line) {
            (Ok(native), Ok(fit)) => predict(fit, native, fetches, &swapped, &cost),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let error = predicted.as_ref().map_err(Clone::clone).and_then(|predicted| {
            let swap = swap.as_ref().map_err(Clone::clone)?;
            unfit.map_or(Ok(()), Err)?;
            Ok(predicted.run_s / swap.median_s - 1.0)
        });
        let equal = predicted.as_ref().ok().zip(swap.as_ref().ok()).map(|(predicted, swap)| {
            let at_equal = predicted.run_s
                + predicted.faults_s * (swapped.pages_in as f64 / fetches.max(1) as f64 - 1.0);
            at_equal / swap.median_s - 1.0
        });
        SwapAnswer {
            version: env!("CARGO_PKG_VERSION").into(),
            command: survey.runner.maker.words(),
            local: question.local.to_string(),
            local_bytes: local.get(),
            footprint_bytes: survey.footprint().get(),
            device: question.device.to_string(),
            native: native.ok(),
            fit: conclusion.fit,
            fetches,
            swap: swap.ok(),
            swapped,
            cost,
            predicted: predicted.ok(),
            withheld: error.as_ref().err().cloned(),
            error: error.ok(),
            error_at_equal_faults: equal,
            disturbance: survey.disturbance(),
            warnings: survey.warnings(),
            machine: None,
        }
    }
}

/// Returns the reason why a run under swap cannot be compared, if the program waited for its files for a large part of the time.
fn throttled(swapped: &Swapped, run_s: f64) -> Option<Warning> {
    let text = format!(
        "in {:.2} s of {run_s:.2} s, the program waited until pages that it had changed of files were written, as this kernel \
         makes the groups of version 1 of cgroups wait; measure it where version 2 is in use, or let it write less",
        swapped.throttled_s
    );
    (swapped.throttled_s > THROTTLED * run_s).then(|| Warning::new("throttled", text))
}

/// Returns the reason why a run under swap cannot be compared, if the program could not run with so little local memory.
fn not_away(swapped: &Swapped, local: Bytes) -> Option<Warning> {
    let text = format!(
        "the kernel could not go on with so little: up to {} more than was asked for were local; ask for a larger --local",
        Bytes::new(swapped.relief_bytes)
    );
    (swapped.relief_bytes > local.get() / 4).then(|| Warning::new("not-away", text))
}

/// Predicts the run time under swap of a program with this number of `fetches`.
fn predict(
    fit: &Fit,
    native: &Runs,
    fetches: u64,
    swapped: &Swapped,
    cost: &FaultCost,
) -> Result<PredictedSwap, Warning> {
    let overlap = if fit.waits > 0.0 { fetches as f64 / fit.waits } else { 1.0 };
    let Touches { fault_ns, range_ns, out_ns, .. } = cost.at(overlap);
    let outs_s = swapped.pages_out.saturating_sub(swapped.pages_in) as f64 * out_ns / 1e9;
    let added = |fault_ns: f64| quality::added_s(fit, fault_ns);
    let (middle, least, most) = (added(fault_ns)?, added(range_ns[0])?, added(range_ns[1])?);
    let (fastest, slowest) =
        native.seconds.iter().fold((f64::INFINITY, 0.0f64), |(low, high), s| (low.min(*s), high.max(*s)));
    Ok(PredictedSwap {
        run_s: native.median_s + middle.value + outs_s,
        run_ci95_s: [fastest + least.ci95[0] + outs_s, slowest + most.ci95[1] + outs_s],
        overlap,
        fault_ns,
        faults_s: middle.value,
        outs_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_waited_for_files_or_kept_more_say_nothing() {
        let swapped = |throttled_s: f64, relief_bytes: u64| Swapped {
            pages_in: 0,
            pages_out: 0,
            pages_scanned: 0,
            peak_local_bytes: 0,
            peak_other_bytes: 0,
            relief_bytes,
            throttled_s,
            compression: None,
        };
        let key = |why: Option<Warning>| why.map(|why| why.key.to_string());
        assert_eq!(key(throttled(&swapped(0.1, 0), 2.0)), None);
        assert_eq!(key(throttled(&swapped(0.11, 0), 2.0)), Some("throttled".into()));
        let local = Bytes::new(4 << 20);
        assert_eq!(key(not_away(&swapped(0.0, 1 << 20), local)), None);
        assert_eq!(key(not_away(&swapped(0.0, (1 << 20) + 1), local)), Some("not-away".into()));
    }
}
