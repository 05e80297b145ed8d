//! Values that a picture shows, without their positions. They are collected while the picture is drawn, so that the drawing and the
//! Vega-Lite specification made from the values (`vega`) agree.

/// Values of a picture, and its axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartData {
    pub x: Scale,
    pub y: Scale,
    /// Values at which the colour of cells changes.
    pub steps: Vec<f64>,
    /// Quantity of the cells, with its unit.
    pub cells: String,
    pub values: Vec<Shown>,
}

/// Axis without its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub label: String,
    pub kind: ScaleKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScaleKind {
    Linear,
    Log,
    /// Names in the order in which they are shown.
    Names,
}

/// Value shown by a mark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub shape: Shape,
    /// Title of the panel; empty in a picture of one panel.
    pub panel: String,
    pub series: String,
    /// Class that colours the series: see [`super::style`].
    pub class: String,
    pub x: Place,
    pub y: Place,
    pub range: Range,
    /// Value of a cell.
    pub value: Option<f64>,
}

/// Position of a value along one axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    Number(f64),
    Name(String),
    /// Everywhere: the value is a line across the whole picture.
    Any,
}

/// Interval of a value along one axis, or of the value of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Range {
    None,
    X([f64; 2]),
    Y([f64; 2]),
    Cell([f64; 2]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Band,
    Cell,
    /// Line across the whole picture, at one value of x.
    Level,
    Line,
    /// Bar along a time axis.
    Bar,
    Limit,
    Dot,
    Ring,
}

impl Shape {
    /// Returns the name of the shape in the Vega-Lite specification.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shape::Band => "band",
            Shape::Cell => "cell",
            Shape::Level => "level",
            Shape::Line => "line",
            Shape::Bar => "bar",
            Shape::Limit => "limit",
            Shape::Dot => "dot",
            Shape::Ring => "ring",
        }
    }
}

impl ChartData {
    /// Returns data without values.
    pub(crate) fn new(x: Scale, y: Scale) -> ChartData {
        ChartData { x, y, steps: Vec::new(), cells: String::new(), values: Vec::new() }
    }

    /// Returns data of cells, whose positions on both axes are names.
    pub(crate) fn of_cells(x: &str, y: &str, cells: &str, steps: &[f64]) -> ChartData {
        let names = |label: &str| Scale { label: label.into(), kind: ScaleKind::Names };
        ChartData { steps: steps.to_vec(), cells: cells.into(), ..ChartData::new(names(x), names(y)) }
    }

    /// Adds a cell.
    pub(crate) fn cell(&mut self, panel: &str, x: String, y: String, value: f64, range: Range) {
        self.values.push(Shown {
            shape: Shape::Cell,
            panel: panel.into(),
            series: String::new(),
            class: String::new(),
            x: Place::Name(x),
            y: Place::Name(y),
            range,
            value: Some(value),
        });
    }
}
