//! `unrack report`: from folders to a page.

use crate::desk;

use desk::{Desk, example, stderr};

fn simulated(name: &str) -> Desk {
    let desk = Desk::new(name);
    for protocol in ["edm", "ideal"] {
        let set = format!("fabric={{protocol=\"{protocol}\"}}");
        let scenario = example("star-edm.toml");
        desk.done(&["sim", &scenario, "--set", "workload.messages=5000", "--set", &set, "--out", protocol]);
    }
    desk
}

#[test]
fn simulations_share_a_page() {
    let desk = simulated("page");
    desk.done(&["report", "edm", "ideal", "-o", "both.html", "--svg", "figures"]);
    let page = String::from_utf8(desk.bytes("both.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{page:.200}");
    assert!(page.contains("edm") && page.contains("ideal") && !page.contains("src=\"http"));
    let figures = std::fs::read_dir(desk.path("figures")).unwrap().count();
    assert!(figures > 0);
}

#[test]
fn what_was_observed_is_in_the_folder_and_on_the_page() {
    let desk = Desk::new("observed");
    let scenario = example("star-dctcp.toml");
    let sim = ["sim", &scenario, "--set", "workload.messages=2000", "--out", "run", "--explain", "777"];
    let said =
        desk.done(&[&sim[..], &["--ports", "run/ports.parquet", "--every", "100ns", "--json"]].concat());
    let explained = &serde_json::from_str::<serde_json::Value>(&said).unwrap()["explained"];
    let kept: serde_json::Value = serde_json::from_slice(&desk.bytes("run/explain.json")).unwrap();
    assert_eq!(kept, *explained);
    let spec: serde_json::Value = serde_json::from_slice(&desk.bytes("run/explain.vl.json")).unwrap();
    let values = spec["data"]["values"].as_array().unwrap();
    let bars = values.iter().filter(|value| value["shape"] == "bar");
    assert_eq!(bars.count(), explained["parts"].as_array().unwrap().len());
    assert!(desk.bytes("run/explain.svg").starts_with(b"<svg"));
    desk.done(&["report", "run", "-o", "page.html"]);
    let page = String::from_utf8(desk.bytes("page.html")).unwrap();
    for id in ["slowdown-by-size", "slowdown-cdf", "link-use", "link-queues", "explain"] {
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id} is missing");
    }
    // A run without them leaves none behind.
    desk.done(&sim[..6]);
    desk.done(&["report", "run", "-o", "page.html"]);
    let page = String::from_utf8(desk.bytes("page.html")).unwrap();
    assert!(!page.contains("id=\"explain\"") && !page.contains("id=\"link-use\""));
}

#[test]
fn a_sweep_has_a_page_with_bands_of_its_seeds() {
    let desk = Desk::new("report-sweep");
    let star = example("star-edm.toml");
    let grid = ["--set", "workload.messages=300", "--set", "workload.load=0.2,0.4", "--seeds", "1..3"];
    desk.done(&[&["sweep", &star, "--out", "swept"], &grid[..]].concat());
    desk.done(&["report", "swept", "-o", "page.html", "--svg", "figures"]);
    let page = String::from_utf8(desk.bytes("page.html")).unwrap();
    for part in
        ["id=\"sweep-mean\"", "id=\"sweep-p99\"", "swept: how does", "workload.load=0.4 seed=3", "3 seeds"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(desk.bytes("figures/sweep-p99.svg").starts_with(b"<svg"));
    desk.file(
        "swept/sweep.json",
        String::from_utf8(desk.bytes("swept/sweep.json")).unwrap().replacen("\"seed\"", "\"seed\", \"x\"", 1),
    );
    assert!(desk.refused(2, &["report", "swept", "-o", "page.html"]).contains("sweep.json"));
}

#[test]
fn what_is_no_run_is_bad_usage() {
    let desk = Desk::new("no-run");
    std::fs::create_dir(desk.path("empty")).unwrap();
    let said = desk.refused(2, &["report", "empty", "-o", "page.html"]);
    assert!(said.contains("empty: not a run folder"), "{said}");
    desk.refused(2, &["report", "-o", "page.html"]);
    desk.refused(2, &["report", "empty"]);
    desk.file("empty/summary.json", "{}");
    let said = desk.refused(2, &["report", "empty", "-o", "page.html"]);
    assert!(said.contains("summary.json"), "{said}");
    assert!(!std::path::Path::new(&desk.path("page.html")).exists());
}

/// Runs `star-edm.toml` with these `--set` in folders of these names, and reports on them.
fn page(desk: &Desk, runs: &[(&str, &[&str])]) -> (String, String) {
    for (name, sets) in runs {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let run = ["sim", &example("star-edm.toml"), "--set", "workload.messages=500", "--out", name];
        desk.done(&[&run[..], &sets[..]].concat());
    }
    let names = runs.iter().map(|(name, _)| *name);
    let words: Vec<&str> = ["report"].into_iter().chain(names).chain(["-o", "page.html"]).collect();
    let output = desk.unrack(&words);
    assert!(output.status.success(), "{}", stderr(&output));
    (String::from_utf8(desk.bytes("page.html")).unwrap(), stderr(&output))
}

fn title(page: &str) -> &str {
    page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap()
}

#[test]
fn runs_of_two_loads_are_no_comparison_of_fabrics() {
    let desk = Desk::new("unlike-load");
    let (page, said) = page(&desk, &[("half", &["workload.load=0.5"]), ("less", &["workload.load=0.4"])]);
    assert_eq!(title(&page), "What does another workload.load change on edm?");
    assert!(page.contains("What differs between these runs"), "{page}");
    assert!(page.contains("<li>workload.load: 50% in half, 40% in less</li>"), "{page}");
    assert!(!page.contains("more than one thing") && !said.contains("more than one thing"), "{said}");
}

#[test]
fn runs_of_two_fabrics_are_compared_and_what_else_differs_is_said() {
    let desk = Desk::new("unlike-fabric");
    let cxl = "fabric={protocol=\"cxl\"}";
    let (both, said) = page(&desk, &[("edm", &[]), ("cxl", &[cxl])]);
    assert_eq!(title(&both), "How do edm and cxl carry this traffic?");
    assert!(both.contains("<li>fabric.protocol: edm in edm, cxl in cxl</li>"), "{both}");
    assert!(
        both.contains("<li>fabric.chunk: 256B in edm, absent in cxl</li>") && said.lines().count() == 1,
        "{said}"
    );
    let more = [cxl, "workload.load=0.4", "seed=2"];
    let (all, said) = page(&desk, &[("edm", &[]), ("other", &more)]);
    assert_eq!(title(&all), "2 simulations that differ in fabric, seed and workload.load");
    for text in [&all, &said] {
        assert!(text.contains("differ in more than one thing (fabric, seed and workload.load)"), "{text}");
    }
}

#[test]
fn three_runs_list_three_values() {
    let desk = Desk::new("unlike-three");
    let (page, _) = page(&desk, &[("a", &["seed=1"]), ("b", &["seed=2"]), ("c", &["seed=2"])]);
    assert_eq!(title(&page), "What does another seed change on edm?");
    assert!(page.contains("<li>seed: 1 in a, 2 in b, 2 in c</li>"), "{page}");
}

#[test]
fn runs_without_a_scenario_are_said_to_be_not_known() {
    let desk = simulated("unlike-unknown");
    std::fs::remove_file(desk.path("edm/manifest.json")).unwrap();
    let output = desk.unrack(&["report", "edm", "ideal", "-o", "page.html"]);
    let page = String::from_utf8(desk.bytes("page.html")).unwrap();
    assert_eq!(title(&page), "2 simulations");
    for text in [page, stderr(&output)] {
        assert!(text.contains("the manifest.json of edm has no scenario"), "{text}");
    }
}
