//! The numbers of two results, compared path by path.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::noise::Noise;

/// A number of the results, in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifferentResult {
    /// Path in the summary, such as `slowdown.p99`; for a sweep, the point and the figure.
    pub value: String,
    /// Value in run A; `None` (null) if it is absent. With several seeds, it is their mean.
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// Change from `a` to `b` as a part of `a`: 0.1 is 10 % more. `None` (null) if `a` is 0, or if either value is absent.
    pub change: Option<f64>,
    pub noise: Noise,
    /// The 95 % confidence interval of `b - a`; `None` without several seeds.
    pub difference_ci95: Option<[f64; 2]>,
}

impl DifferentResult {
    /// Returns a result whose noise is unknown.
    pub fn new(value: String, a: Option<f64>, b: Option<f64>) -> DifferentResult {
        let change = a.filter(|a| *a != 0.0).zip(b).map(|(a, b)| b / a - 1.0);
        DifferentResult { value, a, b, change, noise: Noise::Unknown, difference_ci95: None }
    }
}

/// Keys that describe the run and its machine. They are not results, so they are not compared.
const NO_RESULTS: [&str; 6] = ["disturbance", "machine", "machine_times", "nodes", "seed", "version"];
/// Suffix of a key that has a 95 % confidence interval. Without the suffix, it is the key of the value.
const INTERVAL: &str = "_ci95";
/// Keys that identify elements of a list.
const NAMES: [&str; 3] = ["fabric", "local", "name"];

/// Compares all numbers of two results, by path.
pub(super) fn compare(a: &Value, b: &Value) -> Vec<DifferentResult> {
    let [a, b] = [a, b].map(|value| {
        let mut numbers = NumberPairs::default();
        numbers.add("", value);
        numbers
    });
    let paths: BTreeSet<&String> = a.values.keys().chain(b.values.keys()).collect();
    let one = |path: &String| {
        let of = |numbers: &NumberPairs| numbers.values.get(path).copied();
        let intervals = a.intervals.get(path).zip(b.intervals.get(path));
        let noise = intervals.map_or(Noise::Unknown, |(a, b)| Noise::of_intervals(*a, *b));
        DifferentResult { noise, ..DifferentResult::new(path.clone(), of(&a), of(&b)) }
    };
    paths.into_iter().map(one).collect()
}

#[derive(Default)]
struct NumberPairs {
    values: BTreeMap<String, f64>,
    intervals: BTreeMap<String, [f64; 2]>,
}

impl NumberPairs {
    fn add(&mut self, path: &str, value: &Value) {
        match value {
            Value::Number(number) => {
                self.values.insert(path.into(), number.as_f64().unwrap_or(f64::NAN));
            }
            Value::Object(fields) if stated(fields).is_some() => {
                let [low, value, high] = stated(fields).expect("it is a number with its interval");
                self.values.insert(path.into(), value);
                self.intervals.insert(path.into(), [low, high]);
            }
            Value::Object(fields) => {
                let results = fields.iter().filter(|(key, _)| !NO_RESULTS.contains(&key.as_str()));
                results.for_each(|(key, inner)| self.add_field(path, key, inner));
            }
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    let name = NAMES.iter().find_map(|key| item.get(key)?.as_str());
                    self.add(&below(path, &name.map_or_else(|| n.to_string(), String::from)), item);
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    /// Adds a field. An interval is stored under the path of its value.
    fn add_field(&mut self, path: &str, key: &str, value: &Value) {
        match (key.strip_suffix(INTERVAL), interval(value)) {
            (Some(of), Some(interval)) => {
                self.intervals.insert(below(path, of), interval);
            }
            _ => self.add(&below(path, key), value),
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// Returns low end, value and high end of an object that is a number with its interval; `None` for another object.
fn stated(fields: &serde_json::Map<String, Value>) -> Option<[f64; 3]> {
    let [low, value, high] = ["low", "value", "high"].map(|key| fields.get(key).and_then(Value::as_f64));
    (fields.len() == 3).then_some([low?, value?, high?])
}

fn interval(value: &Value) -> Option<[f64; 2]> {
    match value.as_array()?.as_slice() {
        [low, high] => Some([low.as_f64()?, high.as_f64()?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_found_by_path_and_lists_by_name() {
        let of = |load: f64, slowdown: f64| {
            json!({ "version": "0.1.0", "seed": 1, "machine": { "wall_s": load }, "unfinished": null,
                "slowdown": { "p99": load }, "fabrics": [{ "fabric": "edm", "slowdown": slowdown,
                "slowdown_ci95": [slowdown - 0.1, slowdown + 0.1] }], "seconds": [1.0, 2.0] })
        };
        let compared = compare(&of(2.0, 1.5), &of(3.0, 1.8));
        let shown: Vec<_> =
            compared.iter().map(|one| (one.value.as_str(), one.a, one.b, one.noise)).collect();
        assert_eq!(
            shown,
            [
                ("fabrics.edm.slowdown", Some(1.5), Some(1.8), Noise::More),
                ("seconds.0", Some(1.0), Some(1.0), Noise::Unknown),
                ("seconds.1", Some(2.0), Some(2.0), Noise::Unknown),
                ("slowdown.p99", Some(2.0), Some(3.0), Noise::Unknown),
            ]
        );
        assert_eq!(compared[3].change, Some(0.5));
        assert_eq!(compare(&of(2.0, 1.5), &of(2.0, 1.6))[0].noise, Noise::Within);
    }

    #[test]
    fn the_machines_disturbance_is_no_result_and_a_number_has_its_interval() {
        let of = |low: f64| {
            json!({ "disturbance": { "runs": low, "before": { "queue": low } },
                "lines": { "slowdown": { "low": low, "value": low + 0.1, "high": low + 0.2 } } })
        };
        let compared = compare(&of(1.0), &of(2.0));
        assert_eq!(compared.len(), 1, "{compared:?}");
        assert_eq!((compared[0].value.as_str(), compared[0].noise), ("lines.slowdown", Noise::More));
    }

    #[test]
    fn what_only_one_has_is_absent_in_the_other() {
        let compared = compare(&json!({ "hosts": { "interrupts": 0 } }), &json!({ "hosts": null }));
        assert_eq!(compared.len(), 1);
        assert_eq!((compared[0].a, compared[0].b, compared[0].change), (Some(0.0), None, None));
    }
}
