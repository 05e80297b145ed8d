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
fn figures_are_written_as_png_or_the_missing_fonts_are_named() {
    let desk = simulated("png");
    let output = desk.unrack(&["report", "edm", "--png", "figures"]);
    match output.status.code() {
        Some(0) => {
            let entry = std::fs::read_dir(desk.path("figures")).unwrap().next().unwrap().unwrap();
            assert!(std::fs::read(entry.path()).unwrap().starts_with(b"\x89PNG"));
        }
        status => {
            assert_eq!(status, Some(3), "{}", stderr(&output));
            assert!(stderr(&output).contains("apt-get install fonts"), "{}", stderr(&output));
        }
    }
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
    let said = desk.refused(1, &["report", "empty", "-o", "page.html"]);
    assert!(said.contains("summary.json"), "{said}");
    assert!(!std::path::Path::new(&desk.path("page.html")).exists());
}
