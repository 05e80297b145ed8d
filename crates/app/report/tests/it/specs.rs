//! Vega-Lite specifications beside the drawings: the same values, complete, with their axes.
//!
//! `UNRACK_SPECS=DIR cargo test -p unrack-report --test specs` leaves them in a folder, to be tried in Altair.

use crate::synthetic;
use roxmltree::Document;
use serde_json::Value;
use unrack_report::{Picture, ReportPage, write_svgs};
use unrack_testing::TestFolder;

fn every_kind(scratch: &TestFolder) -> Vec<Picture> {
    let folders = [
        synthetic::compare_folder(scratch, "a"),
        synthetic::map_folder(scratch, "b"),
        synthetic::sim_folder(scratch, "c", 1.3),
        synthetic::lines::folder(scratch, "d"),
    ];
    synthetic::observe(&folders[2]);
    ReportPage::read(&folders).unwrap().figures()
}

/// Returns the number of marks of an SVG file with all these classes.
fn drawn(svg: &Document, classes: &[&str]) -> usize {
    let has = |of: &str| classes.iter().all(|class| of.split(' ').any(|one| one == *class));
    svg.descendants().filter(|node| node.attribute("class").is_some_and(has)).count()
}

/// Returns the values of a specification with this shape.
fn stated<'a>(spec: &'a Value, shape: &str) -> Vec<&'a Value> {
    let values = spec["data"]["values"].as_array().unwrap();
    values.iter().filter(|value| value["shape"] == shape).collect()
}

#[test]
fn specifications_have_the_values_of_the_drawings() {
    let scratch = TestFolder::new("specs");
    for figure in every_kind(&scratch) {
        let (id, svg) = (&figure.id, figure.to_svg());
        let svg = Document::parse(&svg).unwrap();
        let spec: Value = serde_json::from_str(&figure.to_vega_lite()).unwrap();
        for (shape, classes) in [
            ("dot", &["mark", "dot"]),
            ("ring", &["mark", "ring"]),
            ("cell", &["mark", "cell"]),
            ("bar", &["mark", "area"]),
        ] {
            assert_eq!(stated(&spec, shape).len(), drawn(&svg, classes), "{shape}s of {id}");
        }
        if id.ends_with("map-heat") {
            let cells = stated(&spec, "cell");
            let is_inside = |cell: &&Value| {
                let [low, value, high] =
                    ["value_low", "value", "value_high"].map(|key| cell[key].as_f64().unwrap());
                low <= value && value <= high
            };
            assert!(cells.iter().all(is_inside), "every cell has its interval");
        }
        let mut lines: Vec<&str> =
            stated(&spec, "line").iter().map(|value| value["series"].as_str().unwrap()).collect();
        lines.dedup();
        let levels = stated(&spec, "level").len() + stated(&spec, "limit").len();
        assert_eq!(lines.len() + levels, drawn(&svg, &["mark", "line"]), "lines of {id}");
        assert_eq!(stated(&spec, "band").is_empty(), drawn(&svg, &["band"]) == 0, "bands of {id}");
        assert_eq!(spec["title"], figure.title.as_str());
        assert_eq!(spec["description"], figure.description.as_str());
    }
}

#[test]
fn every_layer_has_values_and_titled_axes() {
    let scratch = TestFolder::new("layers");
    for figure in every_kind(&scratch) {
        let id = &figure.id;
        let spec: Value = serde_json::from_str(&figure.to_vega_lite()).unwrap();
        let layers = spec["layer"].as_array().or(spec["spec"]["layer"].as_array()).unwrap();
        assert!(!layers.is_empty(), "{id}");
        for channel in layers.iter().flat_map(|layer| layer["encoding"].as_object().unwrap()) {
            let (name, encoding) = channel;
            if name == "x" || name == "y" {
                let field = encoding["field"].as_str().unwrap();
                let values = spec["data"]["values"].as_array().unwrap();
                assert!(values.iter().any(|value| !value[field].is_null()), "{id}: no value has {field}");
                assert!(encoding["title"].is_string(), "{id}: {name} has no title");
            }
        }
        let logarithmic = figure.to_svg().contains("logarithmic");
        assert_eq!(spec.to_string().contains(r#""type":"log""#), logarithmic, "scales of {id}");
    }
}

#[test]
fn a_file_is_written_for_each_figure() {
    let scratch = TestFolder::new("spec-files");
    let figures = every_kind(&scratch);
    let kept = std::env::var_os("UNRACK_SPECS").map(Into::into);
    let folder = kept.unwrap_or_else(|| scratch.join("figures"));
    let paths = write_svgs(&figures, &folder).unwrap();
    let names = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_string());
    let endings = ["svg", "vl.json"].into_iter();
    let of = |ending| figures.iter().map(move |figure| format!("{}.{ending}", figure.id));
    let expected: Vec<String> = endings.flat_map(of).collect();
    assert_eq!(names.collect::<Vec<_>>(), expected);
}
