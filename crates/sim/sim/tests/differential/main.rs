//! Random small networks and workloads, here and in the slow reference of `tests/reference`: every message completes
//! at the same picosecond.
//!
//! `UNRACK_DIFFERENTIAL_CASES` is the number of cases for each fabric, `UNRACK_DIFFERENTIAL_SEED` selects them;
//! `UNRACK_DIFFERENTIAL_FABRICS` names the fabrics, if not all. A failure prints the number of a case:
//! `UNRACK_DIFFERENTIAL_ONLY` runs that one alone.

mod case;
mod draw;
#[path = "../it/common/fabrics.rs"]
mod fabrics;
mod params;

use case::Case;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_sim::Work;
use unrack_testing::{TestRequirement, skip};
use unrack_units::Time;

/// Mark in place of a completion time: an end of the message has given up.
const GIVEN_UP: i64 = -1;

/// Returns the completion times that the reference finds for these cases; `None`, and a note, if there is no Python.
fn reference(cases: &[Case]) -> Option<Vec<Vec<i64>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/reference/run.py");
    let mut python = Command::new("python3");
    let started = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(why) => {
            skip(TestRequirement::Python3, format!("python3 cannot be run ({why})"));
            return None;
        }
    };
    let input = Value::Array(cases.iter().map(Case::json).collect()).to_string();
    // Python reads all of it before it writes anything.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the reference failed");
    Some(serde_json::from_slice(&output.stdout).expect("a list of lists of times"))
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|why| panic!("{name}: {why}")))
}

#[test]
fn every_message_completes_when_the_reference_says() {
    let cases = from_environment("UNRACK_DIFFERENTIAL_CASES", 100);
    let seed = from_environment("UNRACK_DIFFERENTIAL_SEED", 1);
    let chosen = std::env::var("UNRACK_DIFFERENTIAL_FABRICS").ok();
    let is_chosen = |fabric| chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|one| one == fabric));
    let first = from_environment("UNRACK_DIFFERENTIAL_ONLY", seed.wrapping_mul(1 << 32));
    let numbers = first..first + if first == seed.wrapping_mul(1 << 32) { cases } else { 1 };
    let fabrics = params::FABRICS.into_iter().filter(|fabric| is_chosen(*fabric));
    let all: Vec<Case> =
        fabrics.flat_map(|fabric| numbers.clone().map(move |n| Case::draw(fabric, n))).collect();
    let Some(expected) = reference(&all) else { return };
    let mut wrong = Vec::new();
    for (case, expected) in all.iter().zip(&expected) {
        let done = case.setup().run(&Work::listed(case.messages.clone()), |_| {}).unwrap();
        let time = |time: Time| time.as_ps() as i64;
        let got = done.run.outcomes.iter().map(|outcome| outcome.completion().map_or(GIVEN_UP, time));
        let got: Vec<i64> = got.collect();
        if got != *expected {
            wrong.push(format!(
                "{} {}\n  here      {got:?}\n  reference {expected:?}",
                case.number,
                case.json()
            ));
        }
    }
    // The shortest case is the most useful.
    wrong.sort_by_key(String::len);
    let shortest = wrong.first().map_or("", String::as_str);
    assert!(wrong.is_empty(), "{} of {} cases differ, one of them:\n{shortest}", wrong.len(), all.len());
}
