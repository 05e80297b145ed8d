//! Causes of differences. A cause counts as demonstrated only if a run without it removes most of the difference.

use crate::compared::{SwitchedCause, Verdict};
use crate::computed::Computed;
use crate::declared::DifferenceCause;
use crate::figure::{Judged, judged};
use crate::file::{Figure, Published, PublishedRelation, Study};
use crate::judge::{range, ratios};
use crate::run::StudyResults;

/// Share of the difference that may remain without a demonstrated cause. If more than half of it remained, other causes would
/// explain more than this one.
const REMAINS: f64 = 0.5;

impl Figure {
    /// Returns the figure whose points are those without the cause.
    pub fn without(&self, cause: &DifferenceCause) -> Figure {
        let mut figure = self.clone();
        if let Some(grid) = &cause.grid {
            figure.select.grid = grid.clone();
            figure.select.labels.clear();
        }
        figure.select.labels.extend(cause.labels.clone());
        if self.computed.is_some() {
            figure.computed = cause.computed.clone();
        }
        figure
    }
}

/// Switches the cause of a figure off. Returns `None` if the figure has no cause, or if the run without it was not made.
pub(crate) fn switched(
    study: &Study,
    figure: &Figure,
    with: &Judged,
    results: &StudyResults,
    computed: &Computed,
) -> Option<SwitchedCause> {
    let cause = figure.cause.as_ref()?;
    let without = judged(study, &figure.without(cause), results, computed);
    let demonstrated = match without.verdict {
        Verdict::NotMeasured => return None,
        Verdict::Met => true,
        // An order has no distance: it is met or not.
        _ => match (distance(figure, &without), distance(figure, with)) {
            (Some(without), Some(with)) => without <= with * REMAINS,
            _ => false,
        },
    };
    Some(SwitchedCause { says: cause.says.clone(), ours: without.ours, demonstrated })
}

/// Returns how far our values are from the published ones: the mean of the logarithms of ratios, or by how much a limit is
/// exceeded. An order has no distance, because it is met or not.
fn distance(figure: &Figure, judged: &Judged) -> Option<f64> {
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let apart = |ratio: f64| ratio.ln().abs();
    let (least, most) = range(&judged.numbers)?;
    let far = match &figure.published {
        Published::Number(published) => match figure.relation {
            PublishedRelation::Equal => {
                mean(judged.numbers.iter().map(|ours| apart(ours / published)).collect())
            }
            PublishedRelation::AtMost => (most / published).ln().max(0.0),
            PublishedRelation::AtLeast => (published / least).ln().max(0.0),
        },
        Published::Range([low, high]) => (low / least).ln().max(0.0) + (most / high).ln().max(0.0),
        Published::Rows(_) => {
            let rows = judged.table.as_ref()?.rows.iter().map(ratios).collect::<Option<Vec<_>>>()?;
            mean(rows.into_iter().flat_map(|(_, ratios)| ratios).map(apart).collect())
        }
        Published::Order(_) | Published::Nothing => return None,
    };
    far.is_finite().then_some(far)
}
