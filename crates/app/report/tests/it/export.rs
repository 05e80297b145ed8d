//! Figures as files.

use crate::synthetic;
use std::path::PathBuf;

use roxmltree::Document;
use unrack_report::{ReportPage, write_svgs};
use unrack_testing::TestFolder;

fn report(scratch: &TestFolder) -> ReportPage {
    let folders = [synthetic::compare_folder(scratch, "a"), synthetic::map_folder(scratch, "b")];
    ReportPage::read(&[&folders[0], &folders[1], &synthetic::sim_folder(scratch, "c", 1.3)]).unwrap()
}

#[test]
fn svg_files_are_well_formed_titled_and_full_of_marks() {
    let scratch = TestFolder::new("svg");
    let paths = write_svgs(&report(&scratch).figures(), scratch.join("figures")).unwrap();
    let is_svg = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "svg");
    let paths: Vec<PathBuf> = paths.into_iter().filter(is_svg).collect();
    assert_eq!(paths.len(), 12);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let document = Document::parse(&text).unwrap();
        let named = |name: &str| document.descendants().find(|node| node.tag_name().name() == name).unwrap();
        assert!(!named("title").text().unwrap().is_empty() && !named("desc").text().unwrap().is_empty());
        let class = |node: &roxmltree::Node| node.attribute("class").unwrap_or("").to_string();
        let marks = document.descendants().filter(|node| class(node).split(' ').any(|c| c == "mark"));
        assert!(marks.count() >= 1, "{}", path.display());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{}", path.display());
    }
}
