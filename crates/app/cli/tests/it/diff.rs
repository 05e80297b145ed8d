//! `unrack diff`: differences, and whether they exceed noise.

use crate::desk;

use desk::{Desk, example};
use serde_json::{Value, json};

const FEW: [&str; 2] = ["--set", "workload.messages=2000"];

fn sim(desk: &Desk, out: &str, sets: &[&str]) {
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.done(&[&["sim", &example("star-edm.toml"), FEW[0], FEW[1], "--out", out], &sets[..]].concat());
}

fn sweep(desk: &Desk, out: &str, more: &[&str]) {
    desk.done(&[&["sweep", &example("star-edm.toml"), FEW[0], FEW[1], "--out", out], more].concat());
}

fn diff(desk: &Desk, a: &str, b: &str) -> Value {
    serde_json::from_str(&desk.done(&["diff", a, b, "--json"])).unwrap()
}

#[test]
fn single_runs_differ_in_scenario_and_results_and_noise_is_not_known() {
    let desk = Desk::new("diff-sim");
    sim(&desk, "a", &["workload.load=0.5"]);
    sim(&desk, "b", &["workload.load=0.4", "fabric.chunk=128B"]);
    let found = diff(&desk, "a", "b");
    assert_eq!(found["a"], json!({ "folder": "a", "kind": "simulation" }));
    let scenario = json!([
        { "key": "fabric.chunk", "a": "256B", "b": "128B" }, { "key": "workload.load", "a": "50%", "b": "40%" },
    ]);
    assert_eq!((&found["scenario"], &found["build"]), (&scenario, &json!([])));
    let results = found["results"].as_array().unwrap();
    let p99 = results.iter().find(|one| one["value"] == "slowdown.p99").unwrap();
    assert_eq!(p99["noise"], "unknown");
    let of = |run: &str| {
        let summary: Value = serde_json::from_slice(&desk.bytes(&format!("{run}/summary.json"))).unwrap();
        summary["slowdown"]["p99"].as_f64().unwrap()
    };
    assert_eq!([&p99["a"], &p99["b"]].map(Value::as_f64), [Some(of("a")), Some(of("b"))]);
    assert!((p99["change"].as_f64().unwrap() - (of("b") / of("a") - 1.0)).abs() < 1e-12);
    assert!(found["noise"].as_str().unwrap().contains("--seeds 1..5"), "{found}");
    assert!(results.iter().all(|one| !one["value"].as_str().unwrap().contains("machine")), "{found}");
    // Twice the same, in the text too.
    assert_eq!(desk.done(&["diff", "a", "b"]), desk.done(&["diff", "a", "b"]));
    let text = desk.done(&["diff", "a", "b"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&"workload.load   50%   40%") && lines.contains(&"build: the same"), "{text}");
    let table =
        lines.iter().skip_while(|line| !line.starts_with("results")).take_while(|line| !line.contains(':'));
    let ends: Vec<usize> = table.skip(2).map(|line| line.len()).collect();
    assert!(ends.len() > 5 && ends.iter().all(|end| *end == ends[0]), "columns end together: {text}");
}

#[test]
fn the_same_run_twice_and_another_seed() {
    let desk = Desk::new("diff-same");
    sim(&desk, "a", &[]);
    sim(&desk, "b", &[]);
    sim(&desk, "c", &["seed=2"]);
    let same = diff(&desk, "a", "b");
    assert_eq!(
        (&same["scenario"], &same["results"], &same["noise"]),
        (&json!([]), &json!([]), &json!("the results are the same"))
    );
    let seed = diff(&desk, "a", "c");
    assert_eq!(seed["scenario"], json!([{ "key": "seed", "a": "1", "b": "2" }]));
    assert!(seed["noise"].as_str().unwrap().contains("is noise"), "{seed}");
    // As another build would have left it.
    let mut manifest: Value = serde_json::from_slice(&desk.bytes("b/manifest.json")).unwrap();
    manifest["sources"] = "0123456789abcdef".into();
    desk.file("b/manifest.json", manifest.to_string());
    let mut summary: Value = serde_json::from_slice(&desk.bytes("b/summary.json")).unwrap();
    summary["slowdown"]["mean"] = 9.0.into();
    desk.file("b/summary.json", summary.to_string());
    let built = diff(&desk, "a", "b");
    assert_eq!(built["build"][0]["key"], "sources");
    assert_eq!(built["results"].as_array().unwrap().len(), 1);
    assert!(built["noise"].as_str().unwrap().contains("the builds make the difference"), "{built}");
}

#[test]
fn sweeps_are_judged_by_their_seeds() {
    let desk = Desk::new("diff-sweep");
    sweep(&desk, "a", &["--seeds", "1..5", "--set", "workload.load=0.3,0.8"]);
    sweep(&desk, "other-seeds", &["--seeds", "6..10", "--set", "workload.load=0.3,0.8"]);
    sweep(
        &desk,
        "cxl",
        &["--seeds", "1..5", "--set", "workload.load=0.3,0.8", "--set", "fabric={protocol=\"cxl\"}"],
    );
    let noise = |found: &Value, value: &str| {
        let results = found["results"].as_array().unwrap();
        let one =
            results.iter().find(|one| one["value"] == value).unwrap_or_else(|| panic!("{value}: {found}"));
        let [low, high] = [0, 1].map(|n| one["difference_ci95"][n].as_f64().unwrap());
        let difference = one["b"].as_f64().unwrap() - one["a"].as_f64().unwrap();
        assert!(low <= difference && difference <= high, "{one}");
        one["noise"].as_str().unwrap().to_string()
    };
    let chance = diff(&desk, "a", "other-seeds");
    assert_eq!(chance["scenario"][0]["key"], "seed");
    let results = chance["results"].as_array().unwrap();
    let more = results.iter().filter(|one| one["noise"] == "more").count();
    assert!(results.len() > 10 && more * 5 <= results.len(), "{more} of {}: {chance}", results.len());
    let fabric = diff(&desk, "a", "cxl");
    for load in ["0.3", "0.8"] {
        assert_eq!(noise(&fabric, &format!("workload.load={load} slowdown_mean")), "more");
        assert_eq!(noise(&fabric, &format!("workload.load={load} completion_mean_ns")), "more");
    }
    assert!(fabric["noise"].as_str().unwrap().contains("spread over seeds"), "{fabric}");
    let text = desk.done(&["diff", "a", "other-seeds"]);
    assert!(text.contains("values differ within noise"), "{text}");
    // One seed is not enough to judge noise.
    sweep(&desk, "one", &["--set", "workload.load=0.3,0.8"]);
    let one = diff(&desk, "one", "cxl");
    assert!(one["results"].as_array().unwrap().iter().all(|one| one["noise"] == "unknown"), "{one}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let desk = Desk::new("diff-refused");
    sim(&desk, "sim", &[]);
    sweep(&desk, "sweep", &[]);
    std::fs::create_dir(desk.path("empty")).unwrap();
    let said = desk.refused(2, &["diff", "sim", "sweep"]);
    assert!(said.contains("sim holds a simulation and sweep a sweep"), "{said}");
    for (a, b) in [("sim", "empty"), ("absent", "sim")] {
        let said = desk.refused(2, &["diff", a, b]);
        assert!(said.contains("not the folder of a finished run"), "{said}");
    }
    desk.file("sweep/sweep.json", "{}");
    let said = desk.refused(1, &["diff", "sweep", "sweep"]);
    assert!(said.contains("sweep.json") && said.contains("run the command again"), "{said}");
}
