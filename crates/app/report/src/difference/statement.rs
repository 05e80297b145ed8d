//! Statement on noise: how it was judged, or how it could be.

use super::{DifferentResult, DifferentText, Kind, Noise};

/// Returns a sentence that states how noise was judged, or how it could be judged.
pub(super) fn statement(
    kind: Kind,
    scenario: &[DifferentText],
    is_same_build: bool,
    results: &[DifferentResult],
) -> &'static str {
    let is_seed = |one: &DifferentText| one.key == "seed";
    let is_judged = results.iter().any(|one| one.noise != Noise::Unknown);
    match kind {
        _ if results.is_empty() => "the results are the same",
        Kind::Sweep if is_judged => {
            "judged by the spread over seeds: more than noise is outside of the 95 % confidence interval"
        }
        Kind::Comparison if is_judged => {
            "slowdowns are judged by their 95 % confidence intervals; of other values noise is not known: repeat the \
             runs (--repeat)"
        }
        Kind::Comparison | Kind::Map => "not known: repeat the runs (--repeat) and compare again",
        Kind::Simulation | Kind::Sweep if scenario.is_empty() && is_same_build => {
            "none: the same scenario on the same build gives the same results, so please report this"
        }
        Kind::Simulation | Kind::Sweep if scenario.is_empty() => {
            "none: the same scenario and seed, so the builds make the difference"
        }
        Kind::Simulation if scenario.iter().all(is_seed) => "only the seed differs: the difference is noise",
        Kind::Simulation | Kind::Sweep => {
            "not known from one seed each: run both as `unrack sweep SCENARIO --seeds 1..5 --out DIR` and compare \
             those folders"
        }
    }
}
