//! Tables for the terminal, letter by letter.

use crate::synthetic;
use unrack_record::Warning;

#[test]
fn a_comparison() {
    let mut comparison = synthetic::comparison();
    comparison.command = vec!["sort".into(), "my words.txt".into()];
    let text = unrack_report::comparison_text(&comparison);
    assert_eq!(text, include_str!("comparison.txt"), "\n{text}");
}

#[test]
fn a_comparison_of_which_nothing_can_be_said() {
    let mut comparison = synthetic::withheld_comparison();
    comparison.command = vec!["sort".into()];
    let text = unrack_report::comparison_text(&comparison);
    assert_eq!(text, include_str!("withheld.txt"), "\n{text}");
}

#[test]
fn a_map() {
    let mut map = synthetic::map();
    map.command = vec!["sort".into()];
    map.locals.truncate(2);
    map.locals[1].slowdown = None;
    map.locals[1].withheld =
        Some(Warning::new("intercept", "the line gives -11.00 s for a run without waits"));
    map.warnings = vec![Warning::new("disturbed", "the machine is busy")];
    let text = unrack_report::map_text(&map);
    assert_eq!(text, include_str!("map.txt"), "\n{text}");
}

#[test]
fn simulations() {
    let run = |fabric: &str, mean| serde_json::from_value(synthetic::simulation(fabric, mean)).unwrap();
    let runs = [("first".to_string(), run("edm", 1.2)), ("second run".to_string(), run("dctcp", 14.0))];
    let text = unrack_report::simulation_text(&runs);
    assert_eq!(text, include_str!("simulations.txt"), "\n{text}");
}

#[test]
fn rough_answers_are_marked() {
    let mut comparison = synthetic::comparison();
    comparison.rough = Some(Warning::new("rough", "ROUGH: others ran"));
    let text = unrack_report::comparison_text(&comparison);
    assert!(text.contains(" ~1.016 ") && text.contains("need     roughly: "), "{text}");
    assert!(text.contains("were disturbed and are used roughly"), "{text}");
    let mut lines = synthetic::lines::summary();
    assert!(!unrack_report::lines_text(&lines).contains('~'));
    lines.lines.warnings.push(Warning::new("native-disturbed", "ROUGH: others ran"));
    assert!(unrack_report::lines_text(&lines).contains("~1.100"));
}

#[test]
fn a_part_of_a_program_and_its_threads_are_told() {
    let mut lines = synthetic::lines::summary();
    let text = unrack_report::lines_text(&lines);
    assert!(text.contains("sort 7 / 1") && text.contains("19,500"), "{text}");
    assert!(text.contains("1,900,000 lines read: 20,000 by misses"), "{text}");
    lines.lines.seen = Some(0.051);
    assert!(unrack_report::lines_text(&lines).contains("of the first 5.1 % of the program: "));
}
