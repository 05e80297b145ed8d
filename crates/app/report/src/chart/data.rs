//! Values that a picture shows, without their positions. They are collected while the picture is drawn, so that the drawing and the
//! Vega-Lite specification made from the values (`vega`) agree.

/// Values of a picture, and its axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartData {
    pub x: AxisScale,
    pub y: AxisScale,
    /// Values at which the colour of cells changes.
    pub steps: Vec<f64>,
    /// Quantity of the cells, with its unit.
    pub cells: String,
    pub values: Vec<ShownValue>,
}

/// Axis without its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AxisScale {
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
pub(crate) struct ShownValue {
    pub shape: MarkShape,
    /// Title of the panel; empty in a picture of one panel.
    pub panel: String,
    pub series: String,
    /// Class that colours the series: see [`super::style`].
    pub class: String,
    pub x: AxisPosition,
    pub y: AxisPosition,
    pub range: AxisRange,
    /// Value of a cell.
    pub value: Option<f64>,
}

/// Position of a value along one axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AxisPosition {
    Number(f64),
    Name(String),
    /// Everywhere: the value is a line across the whole picture.
    Any,
}

/// Interval of a value along one axis, or of the value of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AxisRange {
    None,
    X([f64; 2]),
    Y([f64; 2]),
    Cell([f64; 2]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MarkShape {
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

impl MarkShape {
    /// Returns the name of the shape in the Vega-Lite specification.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            MarkShape::Band => "band",
            MarkShape::Cell => "cell",
            MarkShape::Level => "level",
            MarkShape::Line => "line",
            MarkShape::Bar => "bar",
            MarkShape::Limit => "limit",
            MarkShape::Dot => "dot",
            MarkShape::Ring => "ring",
        }
    }
}

impl ChartData {
    /// Returns data without values.
    pub(crate) fn new(x: AxisScale, y: AxisScale) -> ChartData {
        ChartData { x, y, steps: Vec::new(), cells: String::new(), values: Vec::new() }
    }

    /// Returns data of cells, whose positions on both axes are names.
    pub(crate) fn of_cells(x: &str, y: &str, cells: &str, steps: &[f64]) -> ChartData {
        let names = |label: &str| AxisScale { label: label.into(), kind: ScaleKind::Names };
        ChartData { steps: steps.to_vec(), cells: cells.into(), ..ChartData::new(names(x), names(y)) }
    }

    /// Adds a cell.
    pub(crate) fn cell(&mut self, panel: &str, x: String, y: String, value: f64, range: AxisRange) {
        self.values.push(ShownValue {
            shape: MarkShape::Cell,
            panel: panel.into(),
            series: String::new(),
            class: String::new(),
            x: AxisPosition::Name(x),
            y: AxisPosition::Name(y),
            range,
            value: Some(value),
        });
    }
}
