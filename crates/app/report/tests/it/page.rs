//! The page as text: complete, escaped, well-formed, self-contained.

use crate::synthetic::{self, HOSTILE};
use roxmltree::{Document, ParsingOptions};
use unrack_report::{ReportError, ReportPage};
use unrack_testing::TestFolder;

fn compare_page(scratch: &str) -> String {
    let scratch = TestFolder::new(scratch);
    ReportPage::read(&[synthetic::compare_folder(&scratch, "run")]).unwrap().html()
}

/// Parses the page as XML, which is stricter than any browser.
fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn ids<'a>(page: &'a Document) -> Vec<&'a str> {
    page.descendants().filter_map(|node| node.attribute("id")).collect()
}

#[test]
fn a_comparison_has_every_part() {
    let page = compare_page("structure");
    let document = parsed(&page);
    let ids = ids(&document);
    for id in [
        "result",
        "slowdown-by-fabric",
        "slowdown-latency",
        "slowdown-fabrics",
        "completion-cdf",
        "fetch-rate",
        "terms",
    ] {
        assert!(ids.contains(&id), "{id} is missing: {ids:?}");
    }
    let parts = [
        "What would disaggregated memory do to sort?",
        "With 25\u{a0}% of its 256\u{a0}MiB in local memory, sort would be 1.6\u{a0}% slower on edm, 6.8\u{a0}% slower on cxl and \
         22.4\u{a0}% slower on dctcp. To lose at most 1\u{a0}%, a page fetch may take at most 50\u{a0}ns on average \
         (48\u{a0}ns to 52\u{a0}ns), which no link of 100\u{a0}Gb/s can do.",
        "For at most 1\u{a0}% slowdown: at most 50\u{a0}ns per page fetch (48\u{a0}ns to 52\u{a0}ns), but no link of \
         100\u{a0}Gb/s does this, where the bits of a page alone take 328\u{a0}ns; this would: a link of at least \
         656\u{a0}Gb/s and no latency, or at least 40\u{a0}% local memory",
        "For at most 5\u{a0}% slowdown: at most 2.5\u{a0}µs per page fetch (2.4\u{a0}µs to 2.6\u{a0}µs), or at least",
        "5\u{a0}% loss: 2.5\u{a0}µs (2.4\u{a0}µs to 2.6\u{a0}µs)",
        "2 of 16 runs were disturbed and are not used, 1 of them since made again undisturbed",
        "native runs differ by 2.5 %: the machine is busy",
        "How this was run",
        "The scenario",
        "Simulation of dctcp",
        "DDC §3",
        "EDM §4.3",
    ];
    for part in parts {
        assert!(page.contains(part), "`{part}` is missing");
    }
}

#[test]
fn what_is_withheld_says_so_and_shows_no_number() {
    let scratch = TestFolder::new("withheld");
    unrack_record::write_json(scratch.join("summary.json"), &synthetic::withheld_comparison()).unwrap();
    let report = ReportPage::read(&[&*scratch]).unwrap();
    let ids: Vec<_> = report.figures().into_iter().map(|figure| figure.id).collect();
    assert_eq!(ids, ["slowdown-by-fabric"], "no line, so nothing that rests on it");
    let page = report.html();
    parsed(&page);
    let why = "is withheld: too few undisturbed native runs, 1 of at least 3";
    assert!(page.contains(why) && page.contains(">withheld</text>") && page.contains("<dd>withheld</dd>"));
    for number in ["40,000", "2.5\u{a0}µs", "1.016", "2.00\u{a0}s"] {
        assert!(!page.contains(number), "{number} is withheld");
    }
}

#[test]
fn a_share_that_is_withheld_is_not_drawn() {
    let scratch = TestFolder::new("withheld-share");
    let mut map = synthetic::map();
    let why = unrack_record::Warning::new("intercept", "the line gives -11.00 s for a run without waits");
    (map.locals[0].slowdown, map.locals[0].slowdown_ci95, map.locals[0].withheld) = (None, None, Some(why));
    unrack_record::write_json(scratch.join("map.json"), &map).unwrap();
    let page = ReportPage::read(&[&*scratch]).unwrap().html();
    parsed(&page);
    assert!(page.contains("The answer for 10\u{a0}% local is withheld: the line gives -11.00 s"));
    assert!(page.contains("withheld: the line gives -11.00 s") && !page.contains("95,000"));
}

#[test]
fn column_heads_lead_to_their_explanation_and_ids_are_unique() {
    let scratch = TestFolder::new("anchors");
    let folders = every_kind(&scratch);
    let page = ReportPage::read(&folders).unwrap().html();
    let document = parsed(&page);
    let mut ids = ids(&document);
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(link.strip_prefix('#').is_some_and(|id| ids.contains(&id)), "{link} leads nowhere");
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is used twice");
}

#[test]
fn words_are_explained_for_what_was_done() {
    let scratch = TestFolder::new("terms");
    let page = ReportPage::read(&[synthetic::lines::folder(&scratch, "lines")]).unwrap().html();
    let document = parsed(&page);
    let ids = ids(&document);
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(link.strip_prefix('#').is_some_and(|id| ids.contains(&id)), "{link} leads nowhere");
    }
    assert!(page.contains("No memory was really remote") && !page.contains("real pages are made remote"));
    assert!(
        page.contains("1.90\u{a0}s, 100\u{a0}ms of it in the kernel (2.38\u{a0}s of processor time)"),
        "{page}"
    );
    let pages = compare_page("terms-pages");
    assert!(pages.contains("real pages are made remote") && !pages.contains("No memory was really remote"));
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let page = compare_page("markup");
    assert!(!page.contains(HOSTILE) && !page.contains("<b>"));
    let document = parsed(&page);
    let scripts = document.descendants().filter(|node| node.has_tag_name("script"));
    assert_eq!(scripts.count(), 1);
    let shown = document.descendants().filter(|node| node.has_tag_name("pre")).filter_map(|pre| pre.text());
    assert!(shown.into_iter().any(|text| text.contains(HOSTILE)), "the scenario is shown as it was written");
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let scratch = TestFolder::new("alone");
    let page = ReportPage::read(&every_kind(&scratch)).unwrap().html();
    for reference in ["http://", "https://", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let document = parsed(&page);
    let policy =
        document.descendants().find_map(|node| node.attribute("http-equiv").and(node.attribute("content")));
    assert!(policy.is_some_and(|policy| policy.starts_with("default-src 'none'")), "{policy:?}");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn several_runs_share_a_page_and_simulations_a_section() {
    let scratch = TestFolder::new("several");
    let report = ReportPage::read(&every_kind(&scratch)).unwrap();
    let page = report.html();
    assert!(page.contains("Unrack: 4 results") && page.contains("How do edm and dctcp carry this traffic?"));
    assert!(page.contains("id=\"1-slowdown-by-fabric\"") && page.contains("id=\"3-map-heat\""));
    let files: Vec<_> = report.figures().into_iter().map(|figure| figure.id).collect();
    assert_eq!(files.len(), 14, "{files:?}");
}

fn every_kind(scratch: &TestFolder) -> [std::path::PathBuf; 5] {
    [
        synthetic::compare_folder(scratch, "compare"),
        synthetic::sim_folder(scratch, "edm", 1.2),
        synthetic::map_folder(scratch, "map"),
        synthetic::sim_folder(scratch, "dctcp", 14.0),
        synthetic::lines::folder(scratch, "lines"),
    ]
}

#[test]
fn a_bare_summary_is_enough() {
    let scratch = TestFolder::new("bare");
    let folder = synthetic::compare_folder(&scratch, "run");
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if !entry.ends_with("summary.json") {
            std::fs::remove_file(entry).unwrap();
        }
    }
    let report = ReportPage::read(&[folder]).unwrap();
    let ids: Vec<_> = report.figures().into_iter().map(|figure| figure.id).collect();
    assert_eq!(ids, ["slowdown-by-fabric", "slowdown-latency", "slowdown-fabrics"]);
    parsed(&report.html());
}

#[test]
fn empty_and_senseless_results_still_make_a_page() {
    let scratch = TestFolder::new("empty");
    let mut comparison = synthetic::comparison();
    comparison.command.clear();
    comparison.fabrics.clear();
    comparison.injection.points.clear();
    comparison.requirements.clear();
    comparison.injection.fit.as_mut().unwrap().waits = -3.0;
    comparison.native.as_mut().unwrap().median_s = 0.0;
    unrack_record::write_json(scratch.join("summary.json"), &comparison).unwrap();
    let page = ReportPage::read(&[&*scratch]).unwrap().html();
    parsed(&page);
    unrack_report::comparison_text(&comparison);
}

#[test]
fn what_is_not_a_run_is_refused_with_the_way_to_get_one() {
    let scratch = TestFolder::new("unknown");
    let message = |folder: &std::path::Path| ReportPage::read(&[folder]).unwrap_err().to_string();
    assert!(message(&scratch).contains("not a run folder"), "{}", message(&scratch));
    std::fs::write(scratch.join("summary.json"), "{}").unwrap();
    assert!(message(&scratch).contains("no `injection`"), "{}", message(&scratch));
    std::fs::write(scratch.join("summary.json"), "{\"fabric\": 3}").unwrap();
    assert!(message(&scratch).contains("summary.json"), "{}", message(&scratch));
    assert!(matches!(ReportPage::read::<&str>(&[]), Err(ReportError::NoFolder)));
}

#[test]
fn a_map_whose_grid_does_not_fit_is_refused() {
    let scratch = TestFolder::new("misfit");
    let mut map = synthetic::map();
    map.locals[1].slowdown.as_mut().unwrap()[2].pop();
    unrack_record::write_json(scratch.join("map.json"), &map).unwrap();
    let message = ReportPage::read(&[&*scratch]).unwrap_err().to_string();
    assert!(message.contains("`slowdown` of `25%` is not 8 latencies by 5 bandwidths"), "{message}");
}

#[test]
fn the_file_appears_whole() {
    let scratch = TestFolder::new("write");
    let report = ReportPage::read(&[synthetic::map_folder(&scratch, "map")]).unwrap();
    report.write(scratch.join("report.html")).unwrap();
    assert_eq!(std::fs::read_to_string(scratch.join("report.html")).unwrap(), report.html());
    assert!(report.write(scratch.join("absent/report.html")).unwrap_err().to_string().contains("absent"));
}

#[test]
fn what_decides_a_simulation_is_said_once_before_its_figures() {
    let scratch = TestFolder::new("warnings");
    let mut summary = synthetic::simulation("homa", 23.0);
    summary["warnings"] = serde_json::json!([
        { "key": "unfinished", "text": "10 of 100000 messages are missing" },
        { "key": "drops", "text": "raise `network.switch.buffer` (now 36KiB) <b>" },
    ]);
    unrack_record::write_json(scratch.join("summary.json"), &summary).unwrap();
    let page = ReportPage::read(&[&*scratch]).unwrap().html();
    parsed(&page);
    let (told, figure) = (page.find("now 36KiB) &lt;b&gt;").unwrap(), page.find("<figure").unwrap());
    assert!(told < figure && page.contains("10 of 100000 messages are missing"));
    assert!(!page.contains("messages did not finish"), "the warning says it");
}

#[test]
fn slowdowns_are_drawn_by_size_from_the_messages_that_count() {
    let scratch = TestFolder::new("by-size");
    let folder = synthetic::sim_folder(&scratch, "edm", 1.2);
    let by_size = |folder: &std::path::Path| {
        let figures = ReportPage::read(&[folder]).unwrap().figures();
        figures.into_iter().find(|figure| figure.id == "slowdown-by-size").map(|figure| figure.to_svg())
    };
    let all = by_size(&folder).unwrap();
    assert_eq!(all.matches("class=\"mark dot s").count(), 2 * synthetic::SIZES.len(), "{all}");
    let mut summary = synthetic::simulation("edm", 1.2);
    summary["excluded"] = serde_json::json!({ "warm_up": 1_000, "cool_down": 2_800 });
    unrack_record::write_json(folder.join("summary.json"), &summary).unwrap();
    let fewer = by_size(&folder).unwrap();
    assert_eq!(fewer.matches("class=\"mark dot s0").count(), 4, "50 messages of each size are left");
    assert_eq!(fewer.matches("class=\"mark dot s1").count(), 0, "too few for a 99th percentile");
    std::fs::remove_file(folder.join("messages.parquet")).unwrap();
    assert_eq!(by_size(&folder), None, "a run without its table has no such figure");
}

#[test]
fn links_and_a_message_are_drawn_if_they_were_observed() {
    let scratch = TestFolder::new("observed");
    let folder = synthetic::sim_folder(&scratch, "edm", 1.2);
    let ids = |folder: &std::path::Path| {
        let figures = ReportPage::read(&[folder]).unwrap().figures();
        figures.into_iter().map(|figure| figure.id).collect::<Vec<_>>()
    };
    let without = ids(&folder);
    synthetic::observe(&folder);
    let with = ids(&folder);
    assert_eq!(with, [&without[..], &["link-use", "link-queues", "explain"].map(String::from)].concat());
    let page = ReportPage::read(&[&folder]).unwrap().html();
    parsed(&page);
    for part in [
        "32 of 40 links, the busiest, over 1.5\u{a0}ms",
        "Message 777: write of 64\u{a0}B, node 90 to node 85",
    ] {
        assert!(page.contains(part), "`{part}` is missing");
    }
    // Several runs keep their figures apart.
    let other = synthetic::sim_folder(&scratch, "dctcp", 14.0);
    synthetic::observe(&other);
    let both = ReportPage::read(&[&folder, &other]).unwrap().html();
    for id in ["link-use-1", "link-use-2", "explain-1", "explain-2"] {
        assert!(both.contains(&format!("<figure id=\"{id}\">")), "{id} is missing");
    }
}

#[test]
fn a_simulation_in_which_nothing_finished() {
    let scratch = TestFolder::new("unfinished");
    let mut summary = synthetic::simulation("dctcp", 2.0);
    let nothing = serde_json::json!({ "count": 0, "mean": null, "p50": null, "p95": null, "p99": null,
        "p999": null, "max": null });
    summary["slowdown"] = nothing.clone();
    summary["completion_ns"] = nothing;
    unrack_record::write_json(scratch.join("summary.json"), &summary).unwrap();
    let report = ReportPage::read(&[&*scratch]).unwrap();
    assert!(report.figures().is_empty());
    let page = report.html();
    parsed(&page);
    assert!(page.contains("10 messages did not finish: the run ended first") && !page.contains("NaN"));
}
