//! Declarations in a study's file: tolerances, causes of differences, mechanisms to break, maps, and charts over time.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Largest difference that counts as the same.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Largest difference, as a share of the published value. For fabrics that are published as the same: of the smallest.
    pub share: f64,
    /// Reason for this share, as a clause without a full stop.
    pub because: String,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance {
            share: 0.1,
            because: "readers of a plot can just distinguish 10 %, and reruns of one simulation by EDM's authors differ by up to \
                      9 % (edm/fig8-artifact)"
                .into(),
        }
    }
}

/// Cause of a difference, and the run in which it is switched off.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DifferenceCause {
    /// The cause, as a sentence.
    pub says: String,
    /// Grid of the run without the cause; by default, the grid of the figure.
    pub grid: Option<String>,
    /// Labels of the points of that run: all in another grid; in the grid of the figure, those that differ.
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// For a computed figure: the value without the cause.
    pub computed: Option<String>,
}

/// A mechanism to break.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// Name of the broken mechanism, such as `ECN off`.
    pub what: String,
    /// Grid whose points are run again with the settings.
    pub grid: Option<String>,
    /// Settings `KEY=VALUE` that break the mechanism. They override all other settings.
    #[serde(default)]
    pub set: Vec<String>,
    /// By axis (or `fabric`): the values whose points are run again; by default, all. The other points keep their results.
    #[serde(default)]
    pub keep: BTreeMap<String, Vec<String>>,
    /// Name of a computation without the mechanism ([`crate::computed::broken`]), for studies that are computed.
    pub computed: Option<String>,
}

/// A map, as a study's file declares it. Each cell is the ratio of two points that differ in the labels `over`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyMap {
    pub title: String,
    pub grid: String,
    /// Name of the ratio, such as `pool over own NICs`.
    pub ratio: String,
    /// Path of the value in the summary.
    pub value: String,
    /// Labels of the numerator.
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, String>,
    /// Labels of the denominator; the others are those of the numerator.
    pub over: BTreeMap<String, String>,
    /// Axis of the columns. Its values are the names of the columns.
    pub x: String,
    pub x_label: String,
    /// Axis of the rows.
    pub y: String,
    pub y_label: String,
    /// Axes for which each value has a separate panel. Panels for the values of the last axis are side by side.
    #[serde(default)]
    pub panels: Vec<String>,
}

/// A chart of [`crate::nics`] over time, with a line for each fabric. The grid requests `nics`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    pub title: String,
    pub grid: String,
    #[serde(default, rename = "where")]
    pub labels: BTreeMap<String, String>,
}
