//! Results of comparisons: verdicts, our values, and their descriptions.

use crate::file::Kind;
use serde::{Deserialize, Serialize};

/// Comparison of one published figure with ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub what: String,
    pub kind: Kind,
    pub source: String,
    pub unit: String,
    /// Published figure as shown in tables.
    pub published: String,
    /// Our figure as shown in tables; empty if this run did not measure it.
    pub ours: String,
    /// The numbers of our figure.
    pub values: Values,
    /// Our figure, simulated with the measured costs of a machine. `None` unless the costs were given and the study uses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_costs: Option<String>,
    /// The same quantity, measured directly on the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    pub verdict: Verdict,
    /// Criterion by which the figure is met or missed, with the reason.
    pub rule: String,
    /// Cause of the difference, and the result of switching it off. `None` if the file names none, or if it was not switched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<SwitchedCause>,
    /// Stored values of ours, and whether this run keeps them. `None` if none are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredBand>,
    /// Description of the difference and of its reason.
    pub sentence: String,
    /// Cells of a published table with our values.
    pub table: Option<PublishedTable>,
}

/// Numbers of our figure: one for a number, two for a range, one for each fabric of an order in its published sequence, and one for
/// each cell of a table, row by row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Values {
    /// Means over seeds. With one seed, the values of that seed.
    pub ours: Vec<f64>,
    /// Half of the 95 % interval of each mean; empty with one seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plus_minus: Vec<f64>,
    /// Values of the seed of the scenario.
    #[serde(skip)]
    pub first_seed: Vec<f64>,
    /// Half of the 95 % interval of each value with one more seed; zeros with one seed.
    #[serde(skip)]
    pub band: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Met,
    /// Met, but the row cannot fail, for example because it is a sum of published numbers. It does not count.
    CannotFail,
    /// Missed, without a demonstrated cause.
    Missed,
    /// Missed, and a run without the named cause removes the difference.
    Explained,
    /// Context differs by the amount that the sentence states.
    Stated,
    /// There is no published value; ours is shown alone.
    Alone,
    /// Not measured, because a quick run has fewer points and messages.
    LeftOut,
    /// The measurement is too uncertain, or needs programs that this machine lacks. The sentence has the reason.
    Withheld,
    /// Not measured although its points were run, because the study's file names a value that does not exist.
    NotMeasured,
}

/// A published table with our values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub fabric: String,
    pub published: Vec<f64>,
    pub ours: Vec<Option<f64>>,
}

impl Verdict {
    /// Returns whether there are values of ours.
    pub fn is_measured(self) -> bool {
        !matches!(self, Verdict::LeftOut | Verdict::Withheld | Verdict::NotMeasured)
    }
}

/// Result of switching a cause off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchedCause {
    pub says: String,
    /// Our figure without the cause, as shown in tables.
    pub ours: String,
    /// Whether the difference is at most [`REMAINS`] of the difference with the cause.
    pub demonstrated: bool,
}

impl SwitchedCause {
    /// Returns what the page says about the cause.
    pub fn sentence(&self, unit: &str) -> String {
        let ours = if self.ours.is_empty() { String::new() } else { format!(": {} {unit}", self.ours) };
        let result = match self.demonstrated {
            true => "A run without it gives the published figure, or at most half of the difference",
            false => {
                "A run without it leaves more than half of the difference, so that this is not the cause"
            }
        };
        format!("{} {result}{}.", self.says, ours.trim_end())
    }
}

/// Stored values, and whether a run keeps them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredBand {
    pub values: Vec<f64>,
    pub band: Vec<f64>,
    /// Whether every value of the run is within the band around the stored one.
    pub held: bool,
}

/// Formats a number to three significant digits.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "–".into(),
        0.0 => "0".into(),
        _ => format!("{value:.*}", (2 - magnitude.log10().floor() as i32).max(0) as usize),
    }
}

/// Formats our values as tables show them.
pub(crate) fn shown(values: &[f64], digits: Option<usize>) -> String {
    let one = |value: &f64| digits.map_or_else(|| number(*value), |digits| format!("{value:.digits$}"));
    values.iter().map(one).collect::<Vec<_>>().join(" to ")
}
