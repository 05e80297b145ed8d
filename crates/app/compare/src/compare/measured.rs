//! Measurements of the program itself: native runs, the captured run, and runs at injected delays.

use super::simulated::Simulator;
use crate::error::Error;
use crate::runs::conclusion::Conclusion;
use crate::runs::survey::{Survey, undelayed};
use crate::runs::task::{DISTURBED, MeasurementTask, TaskResult};
use unrack_paging::local_bytes;
use unrack_paging::quality::{self, OtherShare};
use unrack_record::{Runs, Warning};
use unrack_units::{Bytes, Share};

pub(super) struct MeasuredRuns {
    pub native: Result<Runs, Warning>,
    /// Native run time that determines the speed of replays, in seconds. It comes from disturbed runs if there are no others.
    pub pace_s: f64,
    pub footprint: Bytes,
    pub local: Bytes,
    /// The pager's cost per fetch, in ns; `None` if other work disturbed its measurement.
    pub floor_ns: Option<f64>,
    /// The captured run; `None` if the budget left no time for it.
    pub captured: Option<TaskResult>,
    /// Reason why numbers that depend on this machine are rough.
    pub rough: Option<Warning>,
    pub conclusion: Conclusion,
    /// Local shares other than the requested one, each with the number of fetches of a run at that share.
    pub other_shares: Vec<(f64, u64)>,
}

/// Local shares at which fetches are counted, to find how much local memory would be enough.
const SHARES: [f64; 3] = [0.4, 0.6, 0.8];

/// Fetch time, in ns, at which the slowdown must be certain: more runs are made for that while the budget has time. It is the 5 us of DDC's
/// target.
const USUAL_NS: f64 = 5_000.0;

/// Returns the size of local memory that the share `share` gives to a program whose footprint is known.
pub(super) fn local(survey: &Survey, share: Share) -> Result<Bytes, Error> {
    Ok(local_bytes(share, survey.footprint())?)
}

/// Makes all runs of the program. After the captured run, the simulator predicts the time of its simulations.
pub(super) fn measure(survey: &Survey, local: Bytes, simulator: &Simulator) -> Result<MeasuredRuns, Error> {
    survey.capture(local)?;
    simulator.predict(survey)?;
    let footprint = survey.footprint();
    let other = |share: f64| Bytes::new((share * footprint.get() as f64) as u64);
    let others: Vec<_> = SHARES
        .into_iter()
        .map(|share| (share, other(share)))
        .filter(|(_, bytes)| is_other(*bytes, local))
        .collect();
    survey.inject(&[local], &others.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>())?;
    survey.make_surer(&[local], USUAL_NS)?;
    let made = |(share, bytes): &(f64, Bytes)| Some((*share, survey.kept.get(undelayed(*bytes))?));
    let others: Vec<(f64, TaskResult)> = others.iter().filter_map(made).collect();
    let conclusion = advised(survey.conclude(local), survey.pace_s(), &others);
    let native = survey.native();
    let rough = conclusion.rough.clone().or_else(|| captured_doubt(survey, undelayed(local)));
    let rough = rough.or_else(|| native.as_ref().err().filter(|why| why.key == DISTURBED).cloned());
    let cost = survey.kept.cost().filter(|(_, is_disturbed)| !is_disturbed);
    Ok(MeasuredRuns {
        native: survey.any_native(),
        pace_s: survey.pace_s(),
        footprint,
        local,
        floor_ns: cost.map(|(cost, _)| cost.floor_ns),
        captured: survey.kept.get(undelayed(local)),
        rough,
        conclusion,
        other_shares: others.iter().map(|(share, done)| (*share, done.fetches)).collect(),
    })
}

/// If the conclusion is withheld, adds a recommendation which other local share to ask about.
fn advised(conclusion: Conclusion, native_s: f64, others: &[(f64, TaskResult)]) -> Conclusion {
    let other = |(share, done): &(f64, TaskResult)| OtherShare { share: *share, run_s: done.wall_s };
    let others: Vec<OtherShare> = others.iter().filter(|(_, done)| !done.not_away).map(other).collect();
    let withheld = conclusion.withheld.map(|why| quality::with_share(why, native_s, &others));
    Conclusion { withheld, ..conclusion }
}

fn is_other(bytes: Bytes, asked: Bytes) -> bool {
    bytes > asked && bytes >= unrack_paging::SMALLEST_LOCAL
}

/// Returns the warning that other work disturbed the captured run, if it did.
fn captured_doubt(survey: &Survey, captured: MeasurementTask) -> Option<Warning> {
    let is_disturbed = survey.kept.get(captured).is_some() && !survey.kept.has(captured);
    let text = format!(
        "ROUGH: other work disturbed the captured run ({}), whose pace the simulated fetches have: run it again on an idle machine, or \
         give a larger --budget, within which to wait for one",
        survey.last_reason()
    );
    is_disturbed.then(|| Warning::new("rough", text))
}

impl MeasuredRuns {
    /// Returns the reason why the captured page transfers are not replayed, if there is one. A replay needs the time of the captured run
    /// and the time of native runs. If all native runs were disturbed, the replay is only rough.
    pub(super) fn traffic_doubt(&self) -> Option<Warning> {
        if self.captured.is_none() {
            let text = "the budget left no time for the captured run: give a larger --budget";
            return Some(Warning::new("budget", text));
        }
        self.native.as_ref().err().cloned()
    }

    /// Returns warnings other than those about the runs themselves.
    pub(super) fn doubts(&self) -> Vec<Warning> {
        let mut doubts = Vec::new();
        if let Some(TaskResult { fetches, .. }) = self.captured.filter(|captured| captured.fetches < 1000) {
            let text =
                format!("only {fetches} fetches: this program hardly needs more than its local memory");
            doubts.push(Warning::new("few-fetches", text));
        }
        doubts.extend(self.conclusion.withheld.clone());
        doubts
    }
}
