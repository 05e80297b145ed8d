//! Vega-Lite specifications of pictures, which readers can restyle in Altair or in an editor. They include the data, and have a layer for
//! each shape.

use serde_json::{Map, Value, json};

use super::data::{AxisPosition, AxisRange, AxisScale, ChartData, MarkShape, ScaleKind, ShownValue};
use super::style;

const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v6.json";
/// Maximum number of panels side by side.
const COLUMNS: usize = 2;

/// Returns the specification of a picture with this title, description and data.
pub(super) fn specification(title: &str, description: &str, data: &ChartData) -> Value {
    let shown: Vec<&ShownValue> = data.values.iter().filter(|shown| is_drawable(shown)).collect();
    let mut spec = json!({
        "$schema": SCHEMA,
        "title": title,
        "description": description,
        "data": { "values": shown.iter().map(|shown| row(shown)).collect::<Vec<_>>() },
        "config": { "mark": { "tooltip": { "content": "data" } } },
    });
    let layers = layers(data, &shown);
    if shown.iter().any(|shown| !shown.panel.is_empty()) {
        spec["facet"] = json!({ "field": "panel", "type": "nominal", "sort": null, "title": null });
        spec["columns"] = json!(COLUMNS);
        spec["spec"] = json!({ "layer": layers, "width": 300 });
        spec["resolve"] = json!({ "scale": { "x": "independent", "y": "independent" } });
    } else {
        spec["layer"] = json!(layers);
        spec["width"] = json!(640);
    }
    spec
}

/// Returns whether JSON can represent every number of a value.
fn is_drawable(shown: &ShownValue) -> bool {
    let ends = match shown.range {
        AxisRange::None => [0.0; 2],
        AxisRange::X(ends) | AxisRange::Y(ends) | AxisRange::Cell(ends) => ends,
    };
    let is_finite =
        |place: &AxisPosition| !matches!(place, AxisPosition::Number(number) if !number.is_finite());
    is_finite(&shown.x) && is_finite(&shown.y) && ends.iter().chain(&shown.value).all(|v| v.is_finite())
}

fn row(shown: &ShownValue) -> Value {
    let mut row = Map::new();
    row.insert("shape".into(), shown.shape.name().into());
    for (key, text) in [("series", &shown.series), ("panel", &shown.panel)] {
        if !text.is_empty() {
            row.insert(key.into(), text.as_str().into());
        }
    }
    for (key, place) in [("x", &shown.x), ("y", &shown.y)] {
        match place {
            AxisPosition::Number(number) => drop(row.insert(key.into(), json!(number))),
            AxisPosition::Name(name) => drop(row.insert(key.into(), json!(name))),
            AxisPosition::Any => {}
        }
    }
    let (axis, ends) = match shown.range {
        AxisRange::None => ("", [0.0; 2]),
        AxisRange::X(ends) => ("x", ends),
        AxisRange::Y(ends) => ("y", ends),
        AxisRange::Cell(ends) => ("value", ends),
    };
    if !axis.is_empty() {
        row.insert(format!("{axis}_low"), json!(ends[0]));
        row.insert(format!("{axis}_high"), json!(ends[1]));
    }
    if let Some(value) = shown.value {
        row.insert("value".into(), json!(value));
    }
    row.into()
}

/// Returns a layer for each used shape and for the intervals, from bottom to top.
fn layers(data: &ChartData, shown: &[&ShownValue]) -> Vec<Value> {
    let series = Palette::new(shown);
    let has = |shape: MarkShape| shown.iter().any(|shown| shown.shape == shape);
    let (x, y) = (axis("x", &data.x), axis("y", &data.y));
    let (low_x, low_y) = (renamed(&x, "x_low"), renamed(&y, "y_low"));
    let filter = |shape: MarkShape| format!("datum.shape == '{}'", shape.name());
    let layer = |filter: String, mark: Value, encoding: Value| json!({ "transform": [{ "filter": filter }], "mark": mark, "encoding": encoding });
    let color = series.color();
    let (x2, y2) = (json!({ "field": "x_high" }), json!({ "field": "y_high" }));
    let mut layers = Vec::new();
    if has(MarkShape::Band) {
        let encoding = json!({ "x": x, "y": low_y, "y2": y2, "color": color });
        layers.push(layer(filter(MarkShape::Band), json!({ "type": "area", "opacity": 0.16 }), encoding));
    }
    if has(MarkShape::Cell) {
        let range: Vec<&str> = (0..=data.steps.len()).map(style::heat_colour).collect();
        let scale = json!({ "type": "threshold", "domain": data.steps, "range": range });
        let heat = json!({ "field": "value", "type": "quantitative", "title": data.cells, "scale": scale });
        let encoding = match data.x.kind {
            ScaleKind::Names => json!({ "x": x, "y": y, "color": heat }),
            _ => json!({ "x": low_x, "x2": x2, "y": y, "color": heat }),
        };
        layers.push(layer(filter(MarkShape::Cell), json!("rect"), encoding));
    }
    if has(MarkShape::Level) {
        let mark = json!({ "type": "rule", "strokeDash": [4, 3] });
        layers.push(layer(filter(MarkShape::Level), mark, json!({ "x": x, "color": color })));
    }
    if has(MarkShape::Line) {
        let encoding = json!({ "x": x, "y": y, "color": color, "strokeDash": series.dashes() });
        layers.push(layer(filter(MarkShape::Line), json!("line"), encoding));
    }
    if has(MarkShape::Bar) {
        let encoding = json!({ "x": low_x, "x2": x2, "y": y, "color": color });
        layers.push(layer(filter(MarkShape::Bar), json!("bar"), encoding));
    }
    let points = |shape: MarkShape| [MarkShape::Dot, MarkShape::Ring, MarkShape::Limit].contains(&shape);
    let among =
        |range: fn(&AxisRange) -> bool| shown.iter().any(|shown| points(shown.shape) && range(&shown.range));
    let is_point = "datum.shape == 'dot' || datum.shape == 'ring' || datum.shape == 'limit'";
    if among(|range| matches!(range, AxisRange::X(_))) {
        let encoding = json!({ "x": low_x, "x2": x2, "y": y, "color": color });
        layers.push(layer(format!("({is_point}) && isValid(datum.x_low)"), json!("rule"), encoding));
    }
    if among(|range| matches!(range, AxisRange::Y(_))) {
        let encoding = json!({ "x": x, "y": low_y, "y2": y2, "color": color });
        layers.push(layer(format!("({is_point}) && isValid(datum.y_low)"), json!("rule"), encoding));
    }
    for (shape, filled, size) in
        [(MarkShape::Ring, false, 150), (MarkShape::Dot, true, 60), (MarkShape::Limit, true, 30)]
    {
        if has(shape) {
            let mark = json!({ "type": "point", "filled": filled, "size": size, "opacity": 1 });
            layers.push(layer(filter(shape), mark, json!({ "x": x, "y": y, "color": color })));
        }
    }
    layers
}

/// Returns the encoding of an axis.
fn axis(field: &str, scale: &AxisScale) -> Value {
    match scale.kind {
        ScaleKind::Names => json!({ "field": field, "type": "nominal", "sort": null, "title": scale.label }),
        kind => {
            let kind = if kind == ScaleKind::Log { "log" } else { "linear" };
            let scale_of = json!({ "type": kind, "zero": false, "nice": kind == "linear" });
            json!({ "field": field, "type": "quantitative", "title": scale.label, "scale": scale_of })
        }
    }
}

/// Returns the same encoding for another field.
fn renamed(axis: &Value, field: &str) -> Value {
    let mut axis = axis.clone();
    axis["field"] = json!(field);
    axis
}

/// Series of a picture with their classes, in the order in which they first appear.
struct Palette<'a> {
    series: Vec<(&'a str, &'a str)>,
}

impl Palette<'_> {
    fn new<'a>(shown: &[&'a ShownValue]) -> Palette<'a> {
        let mut series: Vec<(&str, &str)> = Vec::new();
        for shown in shown {
            if shown.shape != MarkShape::Cell && !series.iter().any(|(name, _)| *name == shown.series) {
                series.push((&shown.series, &shown.class));
            }
        }
        Palette { series }
    }

    fn color(&self) -> Value {
        let colours: Vec<&str> = self.series.iter().map(|(_, class)| style::colour(class)).collect();
        self.encoding(json!(colours))
    }

    fn dashes(&self) -> Value {
        let dashes: Vec<Vec<u32>> = self.series.iter().map(|(_, class)| style::dash(class)).collect();
        self.encoding(json!(dashes))
    }

    fn encoding(&self, range: Value) -> Value {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| *name).collect();
        let scale = json!({ "domain": names, "range": range });
        json!({ "field": "series", "type": "nominal", "title": null, "scale": scale })
    }
}
