//! A short campaign over every target: `make soak` runs a long one.

use std::path::Path;
use unrack_mutate::campaign::{self, CampaignPlan};
use unrack_mutate::corpus::corpus;
use unrack_mutate::targets::TARGETS;

/// Executions of each target; the seed is that of all property tests.
const EXECUTIONS: u64 = 1500;

#[test]
fn good_inputs_are_there_and_taken() {
    for target in TARGETS {
        let corpus = corpus(target);
        assert!(!corpus.inputs.is_empty(), "{} has no inputs", target.name);
        for input in &corpus.inputs {
            campaign::execute(target, input).unwrap_or_else(|why| panic!("{}: {why}", target.name));
        }
    }
}

#[test]
fn damaged_inputs_are_taken_or_refused_but_break_nothing() {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let save = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unrack-mutate-failures");
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for half in 0..2 {
            let failures = &failures;
            let targets = TARGETS.iter().skip(half).step_by(2);
            scope.spawn(move || {
                for target in targets {
                    campaign::run(target, 0, CampaignPlan { seed, executions: EXECUTIONS }, |failure| {
                        failures.lock().unwrap().push(failure);
                    });
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    for failure in &failures {
        eprintln!("{failure}\n  input: {}", failure.save(&save).unwrap().display());
    }
    assert!(failures.is_empty(), "{} inputs broke something; they are in {}", failures.len(), save.display());
}
