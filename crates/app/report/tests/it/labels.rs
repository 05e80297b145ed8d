//! Labels of pictures: none covers another, and none leaves the picture, whatever is drawn.

use crate::synthetic;
use proptest::prelude::*;
use roxmltree::{Document, Node, ParsingOptions};
use unrack_record::{Comparison, FabricResult, SlowdownMap, Stated};
use unrack_report::{
    ChartSeries, ComparedRun, ExplainedMessage, ExplainedPart, LinkOverTime, LinksOverTime, MessageSlowdowns,
    RecordedRun, ReportPage, RunResult, SeriesAxis, SeriesChart, SimulatedRun, SizeSlowdown,
};

/// Part of a pixel by which boxes may touch, since coordinates are written to a tenth.
const TOUCH: f64 = 0.3;

/// Box of a label: left, right, top, bottom.
#[derive(Debug, Clone)]
struct Box {
    #[expect(dead_code, reason = "it is shown by failures")]
    text: String,
    x: [f64; 2],
    y: [f64; 2],
}

impl Box {
    /// Returns the box of a text of 12 px, estimated as the charts estimate it.
    fn new(node: Node) -> Box {
        let text = node.text().unwrap_or_default().to_string();
        let narrow = |c| {
            matches!(c, 'i' | 'l' | 'j' | 't' | 'f' | 'r' | '.' | ',' | ' ' | ':' | '|' | '\'' | '(' | ')')
        };
        let width: f64 = text.chars().map(|c| if narrow(c) { 4.6 } else { 7.7 }).sum();
        let number = |name: &str| node.attribute(name).map_or(0.0, |value| value.parse().unwrap());
        if let Some(turn) = node.attribute("transform") {
            let inside = turn.strip_prefix("translate(").unwrap().split(')').next().unwrap();
            let [x, y] = [0, 1].map(|index| inside.split(' ').nth(index).unwrap().parse::<f64>().unwrap());
            return Box { text, x: [x - 11.0, x + 3.0], y: [y - width / 2.0, y + width / 2.0] };
        }
        let (x, y) = (number("x"), number("y"));
        let has =
            |class: &str| node.attribute("class").unwrap_or_default().split(' ').any(|one| one == class);
        let left = if has("mid") { x - width / 2.0 } else { x - if has("end") { width } else { 0.0 } };
        Box { text, x: [left, left + width], y: [y - 11.0, y + 3.0] }
    }

    fn covers(&self, other: &Box) -> bool {
        let along = |a: [f64; 2], b: [f64; 2]| a[0] + TOUCH < b[1] && b[0] + TOUCH < a[1];
        along(self.x, other.x) && along(self.y, other.y)
    }
}

/// Returns whether an element is a text of a picture, which the heading of a file is not.
fn is_label(node: &Node) -> bool {
    node.has_tag_name("text") && node.attribute("class") != Some("heading")
}

/// Checks the labels of each picture of a page or a file.
fn check(markup: &str) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(markup, options).unwrap();
    let pictures: Vec<Node> = document.descendants().filter(|node| node.has_tag_name("svg")).collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        let id = picture.attribute("id").unwrap_or_default();
        let labels: Vec<Box> = picture.descendants().filter(|node| is_label(node)).map(Box::new).collect();
        for (index, one) in labels.iter().enumerate() {
            if let Some(other) = labels[index + 1..].iter().find(|other| one.covers(other)) {
                panic!("{id}: {one:?} and {other:?}");
            }
        }
        let view = picture.attribute("viewBox").unwrap();
        let size: Vec<f64> = view.split(' ').map(|number| number.parse().unwrap()).collect();
        // A file shifts its picture below a heading.
        let height = if picture.attribute("class") == Some("chart") { f64::INFINITY } else { size[3] };
        for label in &labels {
            assert!(label.x[0] > -3.0 && label.x[1] < size[2] + 3.0, "{id} of {}: {label:?}", size[2]);
            assert!(label.y[0] > -3.0 && label.y[1] < height + 3.0, "{id} of {height}: {label:?}");
        }
    }
}

fn page(result: RunResult) -> String {
    ReportPage::from_runs(vec![RecordedRun { name: "a run with a long name".into(), manifest: None, result }])
        .html()
}

fn comparison(fabrics: &[(String, f64)], losses: &[f64]) -> Comparison {
    let mut comparison = synthetic::comparison();
    let (model, need) = (comparison.fabrics[1].clone(), comparison.requirements[1].clone());
    let spread = model.fetch_us.unwrap();
    let fabric = |(name, us): &(String, f64)| FabricResult {
        fabric: name.clone(),
        fetch_us: Some(unrack_record::DistributionSummary { mean: *us, ..spread }),
        slowdown: Some(1.0 + us * 0.02),
        slowdown_ci95: Some([1.0 + us * 0.019, 1.0 + us * 0.021]),
        slowdown_replay: Some(1.0 + us * 0.02),
        ..model.clone()
    };
    comparison.fabrics = fabrics.iter().map(fabric).collect();
    let of = |loss: &f64| {
        let [low, value, high] = [0.9, 1.0, 1.1].map(|factor| loss / 0.02 * factor);
        let known = unrack_record::Interval { value: Some(value), low, high: Some(high) };
        unrack_record::Requirement { loss: *loss, max_fetch_us: Stated::Known(known), ..need.clone() }
    };
    comparison.requirements = losses.iter().map(of).collect();
    comparison
}

fn map(latencies: usize, bandwidths: usize, locals: usize) -> SlowdownMap {
    let mut map = synthetic::map();
    map.latencies_ns.truncate(latencies);
    map.bandwidths_bps.truncate(bandwidths);
    map.locals.truncate(locals);
    for local in &mut map.locals {
        let cut = |cells: &mut Vec<Vec<f64>>| {
            cells.truncate(latencies);
            cells.iter_mut().for_each(|row| row.truncate(bandwidths));
        };
        local.slowdown.as_mut().map(cut);
        local.slowdown_ci95 = None;
    }
    map
}

fn simulated(sizes: &[(f64, f64)], links: usize, places: &[String], end_ns: f64) -> SimulatedRun {
    let summary = serde_json::from_value(synthetic::simulation("edm", 1.4)).unwrap();
    let size = |(bytes, slowdown): &(f64, f64)| SizeSlowdown {
        bytes: *bytes,
        messages: 200,
        p50: *slowdown,
        p99: Some(slowdown * 3.0),
    };
    let link = |number: usize| LinkOverTime {
        name: format!("port {}", number * 97),
        utilization: vec![0.1; 50],
        queue_bytes: vec![number as u64 * 1_000; 50],
    };
    let step = end_ns / places.len() as f64;
    let part = |(index, place): (usize, &String)| ExplainedPart {
        from_ns: index as f64 * step,
        time_ns: step,
        cause: "queue".into(),
        place: place.clone(),
    };
    let mut sizes: Vec<SizeSlowdown> = sizes.iter().map(size).collect();
    sizes.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let all = unrack_report::Cdf::from_values(sizes.iter().map(|size| size.p50).collect()).unwrap();
    SimulatedRun {
        summary,
        messages: Some(MessageSlowdowns { sizes, all }),
        links: Some(LinksOverTime {
            step_us: end_ns / 5e4,
            end_us: end_ns / 1e3,
            links: (1..=links).map(link).collect(),
            in_all: links,
        }),
        explained: Some(ExplainedMessage {
            message: 7,
            kind: "read".into(),
            bytes: 4096,
            src: 1,
            dst: 2,
            submitted_ns: 0.0,
            completion_ns: end_ns,
            unloaded_ns: end_ns * 0.7,
            parts: places.iter().enumerate().map(part).collect(),
        }),
    }
}

const NAME: &str = "[a-z][a-z0-9-]{1,18}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comparisons(
        fabrics in prop::collection::vec((NAME, 0.3f64..60.0), 1..9),
        losses in prop::collection::vec(0.005f64..0.6, 0..4),
    ) {
        let comparison = comparison(&fabrics, &losses);
        let compared = ComparedRun { comparison, completions: Vec::new(), fetch_rate: None };
        check(&page(RunResult::Comparison(std::boxed::Box::new(compared))));
    }

    #[test]
    fn maps(latencies in 1usize..9, bandwidths in 1usize..6, locals in 1usize..5) {
        check(&page(RunResult::Map(std::boxed::Box::new(map(latencies, bandwidths, locals)))));
    }

    #[test]
    fn simulations(
        sizes in prop::collection::vec((1.0f64..1e7, 1.0f64..500.0), 1..30),
        links in 1usize..32,
        places in prop::collection::vec("[a-z]{3,9}( [a-z]{2,12}){1,12}", 1..9),
        end_ns in 1.0f64..1e7,
    ) {
        let run = simulated(&sizes, links, &places, end_ns);
        check(&page(RunResult::Simulation(std::boxed::Box::new(run))));
    }

    #[test]
    fn series(
        lines in prop::collection::vec((NAME, prop::collection::vec(0.5f64..1e4, 1..9)), 1..10),
        names in prop::option::of(prop::collection::vec(NAME, 9)),
        y_log in any::<bool>(),
    ) {
        let place = |(index, y): (usize, &f64)| (index as f64, *y);
        let of = |(name, ys): &(String, Vec<f64>)| {
            let points: Vec<(f64, f64)> = ys.iter().enumerate().map(place).collect();
            let ranges = points.iter().map(|(_, y)| [y * 0.8, y * 1.3]).collect();
            ChartSeries { ranges, published: points.clone(), ..ChartSeries::new(name, points) }
        };
        let chart = SeriesChart {
            id: "series".into(),
            title: "series".into(),
            x: match names {
                Some(names) => SeriesAxis::Names("program".into(), names),
                None => SeriesAxis::Numbers("load of the network, by its busiest link".into()),
            },
            y_label: "99th percentile of the slowdown (over unloaded)".into(),
            y_log,
            series: lines.iter().map(of).collect(),
            ranges: Some("3 seeds, least and most".into()),
        };
        check(&chart.figure().to_svg());
    }
}
