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
        "drack/wiring",
        "drack/fig9",
        "drack/fig10",
        "drack/sensitivity",
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
    assert_eq!((matching["kind"].as_str(), matching["verdict"].as_str()), (Some("exact"), Some("met")));
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
