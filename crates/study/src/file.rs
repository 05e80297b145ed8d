//! What the file of a study says.

use crate::asked::Sizes;
use crate::error::StudyError;
use serde::Deserialize;
use std::collections::BTreeMap;
use unrack_units::nearest::hint;

/// One study, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// As on the command line: `edm/fig8a`.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Paper, section and figure.
    pub source: String,
    /// What is simulated, and what of it the paper leaves open.
    pub about: String,
    /// On this machine: run by its name alone, since what comes out is not the same every time.
    #[serde(default)]
    pub measured: bool,
    /// The scenario that all points share.
    #[serde(default)]
    pub scenario: String,
    /// In the order of tables: a fabric more is a word more.
    #[serde(default)]
    pub fabrics: Vec<String>,
    #[serde(default, rename = "grid")]
    pub grids: Vec<Grid>,
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
}

/// Every fabric at every combination of the values of its axes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    pub name: String,
    /// `KEY=VALUE`, over the study's scenario.
    #[serde(default)]
    pub set: Vec<String>,
    /// Default: those of the study.
    pub fabrics: Option<Vec<String>>,
    #[serde(default, rename = "axis")]
    pub axes: Vec<Axis>,
    /// By fabric, `KEY=VALUE` for it alone: what its paper says to adapt.
    #[serde(default)]
    pub for_fabric: BTreeMap<String, Vec<String>>,
    /// By fabric, the share of messages that a published average covers: those that finished first.
    #[serde(default)]
    pub first_finished: BTreeMap<String, f64>,
    /// Classes of messages by size, whose figures are `by_size.NAME`.
    #[serde(default)]
    pub by_size: BTreeMap<String, Sizes>,
    /// Whether queues and receivers are looked at: `peaks`. A run takes about twice as long.
    #[serde(default)]
    pub peaks: bool,
    #[serde(default)]
    pub quick: Quick,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    pub name: String,
    /// What the values replace, where they are words.
    pub key: Option<String>,
    pub values: Vec<Value>,
}

/// One value of an axis.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `KEY=VALUE` with the axis's key.
    Word(String),
    /// Several keys under one name.
    Named { name: String, set: Vec<String> },
}

impl Value {
    pub fn name(&self) -> &str {
        match self {
            Value::Word(name) | Value::Named { name, .. } => name,
        }
    }
}

/// What is different in a quick run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// `KEY=VALUE`, over everything else.
    #[serde(default)]
    pub set: Vec<String>,
    /// By axis, the values that are run. Default: all.
    #[serde(default)]
    pub keep: BTreeMap<String, Vec<String>>,
}

/// How a published figure is to be held against ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Must be met to the digit given.
    Exact,
    /// A limit that the mechanism must keep.
    Bound,
    /// A ratio or order that simulation should reproduce.
    Shape,
}

/// One published figure and what of ours it is beside.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub what: String,
    pub kind: Kind,
    pub source: String,
    #[serde(default)]
    pub unit: String,
    pub published: Published,
    #[serde(default)]
    pub relation: Relation,
    /// Digits after the point that are published, or -1 for tens: ours is the same if it rounds to the same. Default 0;
    /// of a shape, that it is not known how the published one was rounded.
    pub digits: Option<i32>,
    /// Of an order: how far apart fabrics may be that are published as the same, as a share of the least. Default 0.1.
    pub tolerance: Option<f64>,
    /// A value of [`crate::computed`], instead of points.
    pub computed: Option<String>,
    #[serde(default)]
    pub select: Select,
    /// Known to be missed, for the reason in the note: the run does not fail of it.
    #[serde(default)]
    pub known: bool,
    /// Why ours differs.
    #[serde(default)]
    pub note: String,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    Number(f64),
    /// From, to.
    Range([f64; 2]),
    /// Fabrics from the lowest to the highest, `a = b` where they are the same within [`Figure::tolerance`].
    Order(Vec<String>),
    /// By fabric, one number for each value of the axis `select.columns`.
    Rows(BTreeMap<String, Vec<f64>>),
}

/// How ours is to be to a published number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    #[default]
    Equal,
    AtMost,
    AtLeast,
}

/// Which points, which of their values, and what becomes of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    pub grid: String,
    /// Axis (or `fabric`) and value.
    #[serde(rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// Of the summary, such as `by_kind.read.slowdown.mean`.
    pub value: String,
    pub take: Take,
    /// Each value over that of the point with these labels instead.
    pub over: BTreeMap<String, String>,
    /// Of [`Published::Rows`]: the axis of the columns.
    pub columns: String,
    /// Of [`Published::Rows`]: sort each row, as the published one is.
    pub sorted: bool,
    /// Multiplies each value: to another unit.
    pub scale: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// There is but one.
    #[default]
    Only,
    Max,
    Min,
    Mean,
    /// The least and the most.
    Range,
}

/// A picture: one line per fabric.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    pub title: String,
    pub grid: String,
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// The axis to the right.
    pub x: String,
    pub x_label: String,
    pub value: String,
    pub y_label: String,
    #[serde(default)]
    pub log: bool,
}

impl Study {
    /// Reads the file of the study `name`.
    pub fn parse(name: &str, text: &str) -> Result<Study, StudyError> {
        let refuse = |why: String| StudyError::File { study: name.into(), why };
        let study: Study = toml::from_str(text).map_err(|why| refuse(why.to_string()))?;
        let study = Study { name: name.into(), ..study };
        study.check().map_err(|wrong| refuse(wrong.shown(text)))?;
        Ok(study)
    }

    pub fn grid(&self, name: &str) -> Option<&Grid> {
        self.grids.iter().find(|grid| grid.name == name)
    }

    /// The fabrics of a grid.
    pub fn fabrics_of<'a>(&'a self, grid: &'a Grid) -> &'a [String] {
        grid.fabrics.as_ref().unwrap_or(&self.fabrics)
    }

    /// Names that lead nowhere.
    fn check(&self) -> Result<(), Wrong> {
        for grid in &self.grids {
            self.check_grid(grid)?;
        }
        for figure in self.figures.iter().filter(|figure| figure.computed.is_none()) {
            let (what, select) = (figure.what.as_str(), &figure.select);
            let grid = self.grid_of(what, &select.grid)?;
            for (axis, value) in select.labels.iter().chain(&select.over) {
                self.check_label(what, grid, axis, value)?;
            }
            match &figure.published {
                Published::Rows(rows) => {
                    axis_of(what, grid, &select.columns)?;
                    rows.keys().try_for_each(|fabric| self.check_label(what, grid, FABRIC, fabric))?;
                }
                Published::Order(order) => {
                    let mut fabrics = order.iter().flat_map(|group| group.split('=')).map(str::trim);
                    fabrics.try_for_each(|fabric| self.check_label(what, grid, FABRIC, fabric))?;
                }
                Published::Number(_) | Published::Range(_) => {}
            }
        }
        for chart in &self.charts {
            let grid = self.grid_of(&chart.title, &chart.grid)?;
            axis_of(&chart.title, grid, &chart.x)?;
            for (axis, value) in &chart.labels {
                self.check_label(&chart.title, grid, axis, value)?;
            }
        }
        Ok(())
    }

    /// What a grid says of its own fabrics and axes.
    fn check_grid(&self, grid: &Grid) -> Result<(), Wrong> {
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

    fn grid_of(&self, what: &str, name: &str) -> Result<&Grid, Wrong> {
        let known: Vec<&str> = self.grids.iter().map(|grid| grid.name.as_str()).collect();
        let found = self.grid(name);
        found
            .ok_or_else(|| Wrong::new(what, name, format!("there is no grid `{name}`{}", hint(name, &known))))
    }

    fn check_label(&self, what: &str, grid: &Grid, axis: &str, value: &str) -> Result<(), Wrong> {
        let known: Vec<&str> = match axis {
            FABRIC => self.fabrics_of(grid).iter().map(String::as_str).collect(),
            _ => axis_of(what, grid, axis)?.values.iter().map(Value::name).collect(),
        };
        if known.contains(&value) {
            return Ok(());
        }
        let (name, hint) = (&grid.name, hint(value, &known));
        Err(Wrong::new(what, value, format!("the axis `{axis}` of `{name}` has no value `{value}`{hint}")))
    }
}

/// The axis that every grid has.
const FABRIC: &str = "fabric";

fn axis_of<'a>(what: &str, grid: &'a Grid, axis: &str) -> Result<&'a Axis, Wrong> {
    let known: Vec<&str> = grid.axes.iter().map(|axis| axis.name.as_str()).chain([FABRIC]).collect();
    let found = grid.axes.iter().find(|known| known.name == axis);
    found.ok_or_else(|| {
        Wrong::new(what, axis, format!("the grid `{}` has no axis `{axis}`{}", grid.name, hint(axis, &known)))
    })
}

/// A word of a study's file that leads nowhere.
struct Wrong {
    /// The figure, chart or grid that it is in.
    what: String,
    word: String,
    why: String,
}

impl Wrong {
    fn new(what: &str, word: &str, why: String) -> Wrong {
        Wrong { what: what.into(), word: word.into(), why }
    }

    /// With the line of the word: the first one from where its figure, chart or grid is named.
    fn shown(&self, text: &str) -> String {
        let begins = |line: &&(usize, &str)| line.1.contains(&format!("\"{}\"", self.what));
        let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
        let from = lines.iter().find(begins).map_or(0, |(n, _)| *n);
        let line = lines[from..].iter().find(|(_, line)| line.contains(&self.word)).map_or(from, |(n, _)| *n);
        format!("line {}: `{}`: {}", line + 1, self.what, self.why)
    }
}
