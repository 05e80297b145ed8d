//! Section of `unrack sweep`.

use super::manifest;
use super::section::{ColumnGroup, PageSection, table};
use crate::words::{count, listed, number};
use crate::{RecordedRun, sweep_figures};
use unrack_record::{Sweep, SweepPoint};

const COLUMNS: &[ColumnGroup] = &[
    ColumnGroup { name: "Point", term: "message", columns: &[] },
    ColumnGroup { name: "Fabric", term: "fabric", columns: &[] },
    ColumnGroup { name: "Messages", term: "message", columns: &["sent", "finished"] },
    ColumnGroup {
        name: "Completion over unloaded",
        term: "unloaded",
        columns: &["mean", "p50", "p99", "max"],
    },
    ColumnGroup { name: "Completion (ns)", term: "message", columns: &["mean", "p99"] },
    ColumnGroup { name: "Throughput (Gb/s)", term: "message", columns: &[] },
    ColumnGroup { name: "Packets lost", term: "queue", columns: &[] },
];

pub(crate) fn section(prefix: &str, run: &RecordedRun, sweep: &Sweep) -> PageSection {
    let keys = match sweep.keys.is_empty() {
        true => "one point".into(),
        false => listed(&sweep.keys),
    };
    let question = format!("{}: how does the slowdown change with {keys}?", run.name);
    let mut section = PageSection::new(prefix, question, answer(sweep), sweep_figures(sweep));
    section.facts(&[("Points", sweep.points.len().to_string()), ("Keys that vary", keys)]);
    let caption = "Where seeds vary, a line is their mean, in a band from the least to the most.";
    section.figure("sweep-mean", caption);
    section.figure("sweep-p99", caption);
    let rows: Vec<Vec<String>> = sweep.points.iter().map(|point| row(sweep, point)).collect();
    table(&mut section.body, "Every point", COLUMNS, &rows);
    manifest::draw(&mut section.body, &["unrack".into(), "sweep".into()], run.manifest.as_ref());
    section
}

/// Returns a sentence with the range of the mean slowdown.
fn answer(sweep: &Sweep) -> String {
    let known = |point: &SweepPoint| Some((point.figures.slowdown_mean?, settings(sweep, point)));
    let all: Vec<(f64, String)> = sweep.points.iter().filter_map(known).collect();
    let least = all.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let most = all.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    match least.zip(most) {
        Some(((least, at), (most, to))) => format!(
            "The mean slowdown over the same message alone is {} ({at}) to {} ({to}).",
            number(*least),
            number(*most)
        ),
        None => "No message counted at any point.".into(),
    }
}

fn settings(sweep: &Sweep, point: &SweepPoint) -> String {
    let settings = sweep.keys.iter().zip(&point.values).map(|(key, value)| format!("{key}={value}"));
    let text = settings.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "the scenario".into() } else { text }
}

fn row(sweep: &Sweep, point: &SweepPoint) -> Vec<String> {
    let some = |value: Option<f64>| value.map_or("–".into(), number);
    let figures = &point.figures;
    vec![
        settings(sweep, point),
        figures.fabric.clone(),
        count(figures.messages),
        count(figures.completed),
        some(figures.slowdown_mean),
        some(figures.slowdown_p50),
        some(figures.slowdown_p99),
        some(figures.slowdown_max),
        some(figures.completion_mean_ns),
        some(figures.completion_p99_ns),
        number(figures.throughput_gbps),
        count(figures.dropped_packets),
    ]
}
