//! `unrack study`: the behaviour that programs rely on.

use crate::desk;

use desk::Desk;
use serde_json::Value;

#[test]
fn studies_are_listed_and_others_refused() {
    let desk = Desk::new("studies");
    let list = desk.done(&["study", "list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let issued = [
        "edm/scheduler",
        "edm/table1",
        "edm/fig5-cycles",
        "edm/failures",
        "edm/mac-limits",
        "edm/fig6",
        "edm/fig7",
        "edm/fig8a",
        "edm/fig8b",
        "edm/fig8-artifact",
        "ddc/table4",
        "ddc/fig7",
        "ddc/programs",
        "ddc/spark",
        "ddc/fig8",
        "ddc/fig9",
        "ddc/table5",
        "r2c2/fig2",
        "r2c2/arithmetic",
        "r2c2/fig7",
        "r2c2/fig8",
        "r2c2/fig10",
        "r2c2/fig15",
        "r2c2/fig17",
        "r2c2/fig18",
        "r2c2/fig19",
        "drack/prototype",
        "drack/wiring",
        "drack/fig9",
        "drack/fig10",
        "drack/sensitivity",
        "drack/skew",
        "drack/map",
        "drack/fig11",
        "drack/fig13",
        "trust/kernel-swap",
    ];
    assert_eq!(names, issued);
    assert_eq!(list.matches("(measured here, not in `all`)").count(), 8);
    let said = desk.refused(2, &["study", "run", "edm/fig9"]);
    assert!(said.contains("no study is called `edm/fig9`; did you mean `edm/fig6`?"), "{said}");
}

#[test]
fn a_study_prints_and_writes_what_it_found() {
    let desk = Desk::new("study");
    let run = ["study", "run", "edm/scheduler", "ddc/table4", "--quick", "--out", "out"];
    let mut printed: Value = serde_json::from_str(&desk.done(&[&run[..], &["--json"]].concat())).unwrap();
    assert_eq!(printed["quick"], true);
    let figures = printed["studies"][0]["figures"].as_array().unwrap();
    let matching = figures.iter().find(|figure| figure["unit"] == "ns").unwrap();
    assert_eq!((matching["published"].as_str(), matching["ours"].as_str()), (Some("9.0"), Some("9.0")));
    // It compares a formula with itself.
    assert_eq!(
        (matching["kind"].as_str(), matching["verdict"].as_str()),
        (Some("exact"), Some("cannot-fail"))
    );
    let written: Value = serde_json::from_slice(&desk.bytes("out/results.json")).unwrap();
    printed.as_object_mut().unwrap().remove("machine").unwrap();
    assert_eq!(written, printed);
    let page = desk.bytes("out/studies.md");
    let table = desk.done(&run);
    assert!(table.contains("published 7.04 us, ours 7.04 us"), "{table}");
    // The same results, from points that were kept: the same page.
    assert!(desk.bytes("out/studies.md") == page);
}

#[test]
fn charts_lie_where_the_page_looks_for_them() {
    let desk = Desk::new("charts");
    desk.done(&["study", "run", "ddc/fig7", "--quick", "--out", "out"]);
    let page = String::from_utf8(desk.bytes("out/studies.md")).unwrap();
    let pictures: Vec<&str> = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let pictures: Vec<&&str> = pictures.iter().filter(|path| path.ends_with(".svg")).collect();
    assert_eq!(pictures.len(), 5);
    for picture in pictures {
        let svg = String::from_utf8(desk.bytes(&format!("out/{picture}"))).unwrap();
        assert!(svg.contains("pfabric: "), "{picture}");
    }
}

/// The short form of a study of this machine: a memory node, asked in each way.
#[test]
fn a_measured_study_names_the_machine_and_what_a_quick_run_lacks() {
    let desk = Desk::new("measured");
    let run = ["study", "run", "ddc/table5", "--quick", "--out", "out", "--json"];
    let printed: Value = serde_json::from_str(&desk.done(&run)).unwrap();
    let figures = printed["studies"][0]["figures"].as_array().unwrap();
    let (of_swap, of_node): (Vec<&Value>, Vec<&Value>) =
        figures.iter().partition(|figure| figure["what"].as_str().unwrap().contains("swap"));
    assert!(of_node.len() >= 8 && of_swap.len() == 2);
    assert!(of_node.iter().all(|figure| figure["ours"].as_str().unwrap() != ""), "{of_node:?}");
    assert!(of_swap.iter().all(|figure| figure["verdict"] == "left-out"), "{of_swap:?}");
    let page = String::from_utf8(desk.bytes("out/studies.md")).unwrap();
    assert!(page.starts_with("# Measured studies") && page.contains(" cores, Linux "), "{page}");
    assert!(page.contains("## DDC: all figures and tables") && page.contains("not in a quick run"), "{page}");
    // An answer is kept: the same page, without a measurement.
    let again: Value = serde_json::from_str(&desk.done(&run)).unwrap();
    assert_eq!(again["studies"], printed["studies"]);
}

/// Costs as `bench/sockets.sh --costs` writes them, with figures of no machine.
const COSTS: &str = r#"{"machine": "a test's machine", "by_value_ns": {"64": 8000.0, "1024": 10000.0},
    "by_reference_ns": {"64": 300.0, "1024": 500.0}, "copy_bytes_per_s": 10e9}"#;

#[test]
fn measured_costs_are_beside_the_study_and_only_if_they_are_given() {
    let desk = Desk::new("costs");
    std::fs::write(desk.path("costs.json"), COSTS).unwrap();
    let run = ["study", "run", "drack/fig13", "--quick", "--out", "out", "--json"];
    let with = [&run[..], &["--costs", "costs.json"]].concat();
    let printed = |run: &[&str]| serde_json::from_str::<Value>(&desk.done(run)).unwrap();
    let (page, plain) = (|| String::from_utf8(desk.bytes("out/studies.md")).unwrap(), printed(&run));
    assert!(!page().contains("measured costs |"), "{}", page());
    let costed = printed(&with);
    assert!(page().contains("| ours | with measured costs | measured | verdict |"), "{}", page());
    assert!(page().contains("Measured on a test's machine: one way, a message of 64 B takes 8.00 us"));
    let figures = |printed: &Value| printed["studies"][0]["figures"].as_array().unwrap().clone();
    for (mut costed, plain) in figures(&costed).into_iter().zip(figures(&plain)) {
        let object = costed.as_object_mut().unwrap();
        let (with, measured) = (object.remove("with_costs"), object.remove("measured"));
        assert_eq!(costed, plain, "the study itself is as it was");
        let is_in_a_rack = plain["what"].as_str().unwrap().starts_with("A message in a rack");
        assert_eq!(measured, is_in_a_rack.then(|| "0.0500".into()));
        // A quick run leaves the rest out. Here, a message by reference spares the stack. The first row searches the rate of memories at
        // which the published time comes out, and with these costs there is none.
        let [ours, with] =
            [&plain["ours"], &with.unwrap_or("".into())].map(|it| it.as_str().unwrap().to_string());
        assert!(ours.is_empty() == with.is_empty() || plain["verdict"] == "alone", "{plain}");
        if is_in_a_rack {
            let [ours, with] = [ours, with].map(|it| it.parse::<f64>().unwrap());
            assert!(with < ours, "{with} {ours}");
        }
    }
    // The same measurement gives the same page; a run without it, the page without.
    let before = page();
    printed(&with);
    assert!(page() == before);
    assert_eq!(printed(&run)["studies"], plain["studies"]);
}

#[test]
fn costs_that_no_study_takes_are_refused() {
    let desk = Desk::new("no-costs");
    std::fs::write(desk.path("costs.json"), COSTS).unwrap();
    std::fs::write(desk.path("wrong.json"), COSTS.replace("300.0", "-3")).unwrap();
    let said = desk.refused(2, &["study", "run", "edm/scheduler", "--quick", "--costs", "costs.json"]);
    assert!(said.contains("takes measured costs"), "{said}");
    let said = desk.refused(2, &["study", "run", "drack/fig13", "--quick", "--costs", "wrong.json"]);
    assert!(said.contains("wrong.json: these are no measured costs"), "{said}");
}

#[test]
fn check_lists_the_rows_that_notice_a_broken_mechanism() {
    let desk = Desk::new("check");
    let run = ["study", "check", "ddc/table4", "edm/mac-limits", "--quick", "--out", "out"];
    let printed: Value = serde_json::from_str(&desk.done(&[&run[..], &["--json"]].concat())).unwrap();
    assert_eq!(printed["quick"], true);
    for study in printed["studies"].as_array().unwrap() {
        let breaks = study["breaks"].as_array().unwrap();
        let noticed = breaks.iter().flat_map(|broken| broken["noticed"].as_array().unwrap());
        assert!(noticed.count() > 0, "{study}");
    }
    let written: Value = serde_json::from_slice(&desk.bytes("out/check.json")).unwrap();
    assert_eq!(written, printed);
    let text = desk.done(&run);
    assert!(text.contains("Switches that store packets before they forward them: "), "{text}");
    let said = desk.refused(2, &["study", "check", "r2c2/fig8"]);
    assert!(said.contains("r2c2/fig8 measures this machine"), "{said}");
    let said = desk.refused(2, &["study", "check", "r2c2/fig99"]);
    assert!(said.contains("no study is called `r2c2/fig99`"), "{said}");
}

#[test]
fn several_seeds_give_intervals_and_stored_values() {
    let desk = Desk::new("seeds");
    let run = ["study", "run", "r2c2/fig17", "--quick", "--seeds", "2", "--out", "out", "--store"];
    desk.done(&[&run[..], &[&desk.path("ours.json")]].concat());
    let stored: Value = serde_json::from_slice(&desk.bytes("ours.json")).unwrap();
    let figures = stored["quick"]["r2c2/fig17"].as_object().unwrap();
    assert_eq!(figures.len(), 2);
    assert!(figures.values().all(|figure| figure["band"][0].as_f64().unwrap() > 0.0), "{figures:?}");
    let results: Value = serde_json::from_slice(&desk.bytes("out/results.json")).unwrap();
    let figure = &results["studies"][0]["figures"][0];
    assert!(figure["ours"].as_str().unwrap().contains(" to "), "{figure}");
    assert_eq!(results["studies"][0]["points"]["points"][0]["seeds"].as_array().unwrap().len(), 1);
    let said = desk.refused(2, &["study", "run", "r2c2/fig17", "--seeds", "99"]);
    assert!(said.contains("99 is not in 1..=10"), "{said}");
}
