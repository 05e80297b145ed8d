//! Parser of a study's file, and checks of the names in it.

use crate::asked::SizeBounds;
use crate::declared::{Break, DifferenceCause, StudyMap, Timeline, Tolerance};
use crate::error::StudyError;
use crate::programs::StudyProgram;
use serde::Deserialize;
use std::collections::BTreeMap;
use unrack_units::nearest::hint;

/// One study, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Name as on the command line, such as `edm/fig8a`.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Paper, section and figure.
    pub source: String,
    /// Description of the simulation, and of the details that the paper does not state.
    pub about: String,
    /// Whether the results depend on this machine. Such a study runs only if the user names it, because its results differ
    /// from run to run.
    #[serde(default)]
    pub measured: bool,
    /// The scenario that all points share.
    #[serde(default)]
    pub scenario: String,
    /// Settings `KEY=VALUE` that replace costs of the scenario by measured ones. A value contains the name of a measured cost in
    /// braces ([`crate::costs`]).
    #[serde(default)]
    pub costs: Vec<String>,
    /// Fabrics in the order of tables.
    #[serde(default)]
    pub fabrics: Vec<String>,
    #[serde(default, rename = "grid")]
    pub grids: Vec<StudyGrid>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    #[serde(default, rename = "map")]
    pub maps: Vec<StudyMap>,
    #[serde(default, rename = "timeline")]
    pub timelines: Vec<Timeline>,
    /// Tolerance of figures that have no other; by default, [`Tolerance::default`].
    pub tolerance: Option<Tolerance>,
    /// Mechanisms that `unrack study check` breaks. Each study that can be checked has at least one.
    #[serde(default, rename = "break")]
    pub breaks: Vec<Break>,
    /// Real programs to run.
    #[serde(default, rename = "program")]
    pub programs: Vec<StudyProgram>,
}

/// Points of a study: every fabric at every combination of the values of the axes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyGrid {
    pub name: String,
    /// Settings `KEY=VALUE` that override values of the study's scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// Fabrics of the grid; by default, those of the study.
    pub fabrics: Option<Vec<String>>,
    #[serde(default, rename = "axis")]
    pub axes: Vec<GridAxis>,
    /// By fabric: settings `KEY=VALUE` for that fabric only, for adaptations that its paper prescribes.
    #[serde(default)]
    pub for_fabric: BTreeMap<String, Vec<String>>,
    /// By fabric: the share of messages, those that finished first, that a published average covers.
    #[serde(default)]
    pub first_finished: BTreeMap<String, f64>,
    /// Classes of messages by size. Their figures have the path `by_size.NAME` in the summary.
    #[serde(default)]
    pub by_size: BTreeMap<String, SizeBounds>,
    /// Whether queues and receivers are observed, which adds `peaks` to the summary. A run then takes about twice as long.
    #[serde(default)]
    pub peaks: bool,
    /// Whether links are observed, which adds `nics` to the summary ([`crate::nics`]).
    #[serde(default)]
    pub nics: bool,
    #[serde(default)]
    pub quick: Quick,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridAxis {
    pub name: String,
    /// Scenario key that gets the values of the axis, if the values are words.
    pub key: Option<String>,
    pub values: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A value for the axis's key.
    Word(String),
    /// Several settings with a common name.
    Named { name: String, set: Vec<String> },
}

impl AxisValue {
    /// Returns the name of the value, which is also its label.
    pub fn name(&self) -> &str {
        match self {
            AxisValue::Word(name) | AxisValue::Named { name, .. } => name,
        }
    }
}

/// Amount of simulation in a run of studies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyScale {
    Full,
    /// Fewer points and messages, for a run of seconds.
    Quick,
}

/// Differences of a quick run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Settings `KEY=VALUE` that override all other settings.
    #[serde(default)]
    pub set: Vec<String>,
    /// By axis: the values that a quick run has; by default, all.
    #[serde(default)]
    pub keep: BTreeMap<String, Vec<String>>,
}

/// Way to compare a published figure with ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A figure that must be met to the published digits.
    Exact,
    /// A limit that the mechanism must not exceed.
    Bound,
    /// A ratio or an order that the simulation should reproduce.
    Shape,
    /// A figure from other conditions, or one that the paper does not state. It is shown for information, and cannot be missed.
    Context,
}

/// One published figure, and the selection of our values to compare it with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub what: String,
    pub kind: Kind,
    pub source: String,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub published: Published,
    #[serde(default)]
    pub relation: PublishedRelation,
    /// Published digits after the decimal point, or -1 for tens. Our value counts as the same if it rounds to the same number.
    /// The default is 0. A shape has no default, because it is not known how its published value was rounded.
    pub digits: Option<i32>,
    /// Largest difference from the published values at which a shape counts as met, as a share. For an order: largest difference
    /// between fabrics that are published as the same, as a share of the smallest. By default, that of the study.
    pub tolerance: Option<f64>,
    /// Reason for `tolerance`, as a clause without a full stop.
    #[serde(default)]
    pub because: String,
    /// Reason why the row cannot fail, as a clause: for example, it is a sum of published numbers, or compares a constant with
    /// itself. Such a row does not count.
    pub cannot_fail: Option<String>,
    /// Name of a value of [`crate::computed`], which is compared instead of points of a grid.
    pub computed: Option<String>,
    #[serde(default)]
    pub select: Select,
    /// Figure of a machine's measured costs that is shown next to this one.
    pub measured: Option<Direct>,
    /// Cause of the difference, with the run in which it is switched off.
    pub cause: Option<DifferenceCause>,
    /// Reason why our figure differs.
    #[serde(default)]
    pub note: String,
}

/// Published value or values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// No published value, so our value is shown alone. For [`Kind::Context`].
    #[default]
    #[serde(skip)]
    Nothing,
    Number(f64),
    /// Minimum and maximum.
    Range([f64; 2]),
    /// Fabrics in ascending order of their values; `a = b` if two are the same within [`Figure::tolerance`].
    Order(Vec<String>),
    /// Numbers by fabric, one for each value of the axis `select.columns`.
    Rows(BTreeMap<String, Vec<f64>>),
}

/// Relation that our value must have to a published number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedRelation {
    #[default]
    Equal,
    AtMost,
    AtLeast,
}

/// Selection of points of a grid, of one value of each, and of the way to combine these values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    pub grid: String,
    /// Labels that the points must have: axes (or `fabric`) with their values.
    #[serde(rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// Path of the value in the summary, such as `by_kind.read.slowdown.mean`.
    pub value: String,
    pub take: SampleChoice,
    /// If set, our value is a value of an axis, at which the value that is selected otherwise has a given size.
    pub crossing: Option<Crossing>,
    /// If not empty, each value is divided by the value of another point: the point that has these labels, and otherwise the same labels.
    pub over: BTreeMap<String, String>,
    /// For [`Published::Rows`]: the axis of the columns.
    pub columns: String,
    /// For [`Published::Rows`]: whether to sort each of our rows, because the published rows are sorted.
    pub sorted: bool,
    /// Factor that converts each value to another unit.
    pub scale: Option<f64>,
}

/// Size of a value, and the axis along which it is searched. The values of the axis are numbers in ascending order.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    pub axis: String,
    /// Size that the value has at the point that is searched, between two points of the grid by interpolation. If the value
    /// has this size at several points, the first of them counts.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleChoice {
    /// The value of the only selected point of the grid. If several points are selected, the published figure counts as not measured.
    #[default]
    Only,
    Max,
    Min,
    Mean,
    /// The minimum and the maximum.
    Range,
}

/// Figure that a machine gives directly, beside a simulated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direct {
    /// Time of a message of 1 KiB by reference over that through the kernel's TCP.
    ReferenceOverValue,
}

/// A chart: one line per fabric.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub title: String,
    pub grid: String,
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// Axis of the grid that is the chart's x axis.
    pub x: String,
    pub x_label: String,
    pub value: String,
    pub y_label: String,
    #[serde(default)]
    pub log: bool,
}

impl Study {
    /// Parses the file of the study `name`.
    ///
    /// # Errors
    /// [`StudyError::File`] if the file is invalid, or refers to a grid, an axis or a value that does not exist.
    pub fn parse(name: &str, text: &str) -> Result<Study, StudyError> {
        let refuse = |why: String| StudyError::File { study: name.into(), why };
        let study: Study = toml::from_str(text).map_err(|why| refuse(why.to_string()))?;
        let study = Study { name: name.into(), ..study };
        study.check().map_err(|wrong| refuse(wrong.shown(text)))?;
        Ok(study)
    }

    /// Returns the grid of this name.
    pub fn grid(&self, name: &str) -> Option<&StudyGrid> {
        self.grids.iter().find(|grid| grid.name == name)
    }

    /// Returns the fabrics of a grid.
    pub fn fabrics_of<'a>(&'a self, grid: &'a StudyGrid) -> &'a [String] {
        grid.fabrics.as_ref().unwrap_or(&self.fabrics)
    }

    /// Checks that all grids, axes and values to which figures and charts refer exist.
    fn check(&self) -> Result<(), UnknownWord> {
        for grid in &self.grids {
            self.check_grid(grid)?;
        }
        for figure in &self.figures {
            figure.check_reasons()?;
            if let Some(cause) = &figure.cause {
                self.check_points(&figure.without(cause))?;
            }
        }
        for broken in &self.breaks {
            self.check_break(broken)?;
        }
        for figure in self.figures.iter().filter(|figure| figure.computed.is_none()) {
            let (what, select) = (figure.what.as_str(), &figure.select);
            self.check_points(figure)?;
            let grid = self.grid_of(what, &select.grid)?;
            match &figure.published {
                Published::Rows(rows) => {
                    axis_of(what, grid, &select.columns)?;
                    rows.keys().try_for_each(|fabric| self.check_label(what, grid, FABRIC, fabric))?;
                }
                Published::Order(order) => {
                    let mut fabrics = order.iter().flat_map(|group| group.split('=')).map(str::trim);
                    fabrics.try_for_each(|fabric| self.check_label(what, grid, FABRIC, fabric))?;
                }
                Published::Nothing | Published::Number(_) | Published::Range(_) => {}
            }
        }
        for chart in &self.charts {
            let grid = self.grid_of(&chart.title, &chart.grid)?;
            axis_of(&chart.title, grid, &chart.x)?;
            for (axis, value) in &chart.labels {
                self.check_label(&chart.title, grid, axis, value)?;
            }
        }
        for timeline in &self.timelines {
            let grid = self.grid_of(&timeline.title, &timeline.grid)?;
            for (axis, value) in &timeline.labels {
                self.check_label(&timeline.title, grid, axis, value)?;
            }
        }
        for map in &self.maps {
            let grid = self.grid_of(&map.title, &map.grid)?;
            for axis in [&map.x, &map.y].into_iter().chain(&map.panels) {
                axis_of(&map.title, grid, axis)?;
            }
            for (axis, value) in map.labels.iter().chain(&map.over) {
                self.check_label(&map.title, grid, axis, value)?;
            }
        }
        Ok(())
    }

    /// Checks that the points exist that a figure selects. A computed figure selects none.
    fn check_points(&self, figure: &Figure) -> Result<(), UnknownWord> {
        if figure.computed.is_some() {
            return Ok(());
        }
        let grid = self.grid_of(&figure.what, &figure.select.grid)?;
        if let Some(crossing) = &figure.select.crossing {
            axis_of(&figure.what, grid, &crossing.axis)?;
        }
        let mut labels = figure.select.labels.iter().chain(&figure.select.over);
        labels.try_for_each(|(axis, value)| self.check_label(&figure.what, grid, axis, value))
    }

    /// Checks that a break names points of the study, or a computation.
    fn check_break(&self, broken: &Break) -> Result<(), UnknownWord> {
        let what = broken.what.as_str();
        let Some(grid) = &broken.grid else {
            let breaks_something = broken.computed.is_some() && broken.set.is_empty();
            return if breaks_something { Ok(()) } else { Err(UnknownWord::new(what, what, BREAKS.into())) };
        };
        let grid = self.grid_of(what, grid)?;
        for (axis, values) in &broken.keep {
            values.iter().try_for_each(|value| self.check_label(what, grid, axis, value))?;
        }
        if broken.set.is_empty() { Err(UnknownWord::new(what, what, BREAKS.into())) } else { Ok(()) }
    }

    /// Checks that the fabrics and axes to which a grid refers exist.
    fn check_grid(&self, grid: &StudyGrid) -> Result<(), UnknownWord> {
        let fabrics = grid.for_fabric.keys().chain(grid.first_finished.keys());
        for fabric in fabrics {
            self.check_label(&grid.name, grid, FABRIC, fabric)?;
        }
        for (axis, values) in &grid.quick.keep {
            axis_of(&grid.name, grid, axis)?;
            values.iter().try_for_each(|value| self.check_label(&grid.name, grid, axis, value))?;
        }
        Ok(())
    }

    fn grid_of(&self, what: &str, name: &str) -> Result<&StudyGrid, UnknownWord> {
        let known: Vec<&str> = self.grids.iter().map(|grid| grid.name.as_str()).collect();
        let found = self.grid(name);
        found.ok_or_else(|| {
            UnknownWord::new(what, name, format!("there is no grid `{name}`{}", hint(name, &known)))
        })
    }

    fn check_label(&self, what: &str, grid: &StudyGrid, axis: &str, value: &str) -> Result<(), UnknownWord> {
        let known: Vec<&str> = match axis {
            FABRIC => self.fabrics_of(grid).iter().map(String::as_str).collect(),
            _ => axis_of(what, grid, axis)?.values.iter().map(AxisValue::name).collect(),
        };
        if known.contains(&value) {
            return Ok(());
        }
        let (name, hint) = (&grid.name, hint(value, &known));
        Err(UnknownWord::new(
            what,
            value,
            format!("the axis `{axis}` of `{name}` has no value `{value}`{hint}"),
        ))
    }
}

impl Figure {
    /// Checks that a tolerance has a reason, and that a cause says what to switch.
    fn check_reasons(&self) -> Result<(), UnknownWord> {
        let refuse = |why: &str| Err(UnknownWord::new(&self.what, &self.what, why.into()));
        let cause = self.cause.as_ref();
        if self.tolerance.is_some() == self.because.is_empty() {
            return refuse("a `tolerance` has its reason in `because`");
        }
        if self.cannot_fail.as_ref().is_some_and(String::is_empty) {
            return refuse("`cannot_fail` has the reason");
        }
        if cause.is_some_and(|cause| self.computed.is_some() != cause.computed.is_some()) {
            return refuse(
                "the `cause` of a computed figure names a computed value, and that of another names points",
            );
        }
        if cause
            .is_some_and(|cause| cause.computed.is_none() && cause.grid.is_none() && cause.labels.is_empty())
        {
            return refuse("a `cause` names the run without it: `grid`, `where` or `computed`");
        }
        Ok(())
    }
}

/// Rule for the tables `[[break]]`.
const BREAKS: &str =
    "a `break` has a `grid` and settings in `set`, or the name of a computation in `computed`";

/// Name of the axis that every grid has.
const FABRIC: &str = "fabric";

fn axis_of<'a>(what: &str, grid: &'a StudyGrid, axis: &str) -> Result<&'a GridAxis, UnknownWord> {
    let known: Vec<&str> = grid.axes.iter().map(|axis| axis.name.as_str()).chain([FABRIC]).collect();
    let found = grid.axes.iter().find(|known| known.name == axis);
    found.ok_or_else(|| {
        UnknownWord::new(
            what,
            axis,
            format!("the grid `{}` has no axis `{axis}`{}", grid.name, hint(axis, &known)),
        )
    })
}

/// Error: a name in a study's file refers to a grid, an axis or a value that does not exist.
struct UnknownWord {
    /// Figure, chart or grid that contains the name.
    what: String,
    word: String,
    why: String,
}

impl UnknownWord {
    fn new(what: &str, word: &str, why: String) -> UnknownWord {
        UnknownWord { what: what.into(), word: word.into(), why }
    }

    /// Returns the error message with a line number: the line where the word first occurs after the name of its figure,
    /// chart or grid.
    fn shown(&self, text: &str) -> String {
        let begins = |line: &&(usize, &str)| line.1.contains(&format!("\"{}\"", self.what));
        let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
        let from = lines.iter().find(begins).map_or(0, |(n, _)| *n);
        let line = lines[from..].iter().find(|(_, line)| line.contains(&self.word)).map_or(from, |(n, _)| *n);
        format!("line {}: `{}`: {}", line + 1, self.what, self.why)
    }
}
