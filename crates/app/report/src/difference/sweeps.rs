//! The points of two sweeps, each compared with the spread over its seeds.

use std::collections::BTreeMap;

use serde_json::Value;
use unrack_record::{Sweep, SweepPoint};

use super::noise::{Noise, mean};
use super::results::DifferentResult;

const SEED: &str = "seed";

/// Values by point and figure; each list has one value per seed.
type SeedSamples = BTreeMap<(String, String), Vec<f64>>;

/// Returns the keys of a sweep, each with its values separated by commas.
pub(super) fn axes(sweep: &Sweep) -> Vec<(String, String)> {
    let axis = |(n, key): (usize, &String)| {
        let mut values: Vec<&str> = Vec::new();
        for point in &sweep.points {
            if !values.contains(&point.values[n].as_str()) {
                values.push(&point.values[n]);
            }
        }
        (key.clone(), values.join(","))
    };
    sweep.keys.iter().enumerate().map(axis).collect()
}

/// Compares every figure of every point of two sweeps.
pub(super) fn compare(a: &Sweep, b: &Sweep) -> Vec<DifferentResult> {
    let (a, b) = (samples(a), samples(b));
    let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let none = Vec::new();
    let one = |key: &(String, String)| {
        let [a, b] = [&a, &b].map(|samples| samples.get(key).unwrap_or(&none));
        let of = |values: &[f64]| (!values.is_empty()).then(|| mean(values));
        let (noise, difference_ci95) = Noise::of_samples(a, b);
        let (point, figure) = key;
        let value = if point.is_empty() { figure.clone() } else { format!("{point} {figure}") };
        DifferentResult { noise, difference_ci95, ..DifferentResult::new(value, of(a), of(b)) }
    };
    keys.into_iter().map(one).collect()
}

fn samples(sweep: &Sweep) -> SeedSamples {
    let mut samples = SeedSamples::new();
    for point in &sweep.points {
        let figures = serde_json::to_value(&point.figures).unwrap_or_default();
        for (figure, value) in figures.as_object().into_iter().flatten().filter(|(name, _)| is_result(name)) {
            let values = samples.entry((label(sweep, point), figure.clone())).or_default();
            values.extend(Value::as_f64(value));
        }
    }
    samples
}

fn is_result(figure: &str) -> bool {
    !["fabric", "nodes", SEED].contains(&figure)
}

/// Describes a point without its seed: `workload.load=0.2`.
fn label(sweep: &Sweep, point: &SweepPoint) -> String {
    let pairs = sweep.keys.iter().zip(&point.values).filter(|(key, _)| *key != SEED);
    pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
