//! Largest differences at which our value counts as the published one, and their reasons.

use crate::declared::Tolerance;
use crate::file::{Figure, Kind, Published, PublishedRelation, Study};

impl Figure {
    /// Returns the tolerance of the figure: its own, otherwise that of its study, otherwise the default.
    pub fn tolerance_in(&self, study: &Study) -> Tolerance {
        match (self.tolerance, &study.tolerance) {
            (Some(share), _) => Tolerance { share, because: self.because.clone() },
            (None, Some(of_study)) => of_study.clone(),
            (None, None) => Tolerance::default(),
        }
    }

    /// Returns what decides whether the figure is met, with the reason, as a sentence for readers of a page.
    pub fn rule(&self, study: &Study) -> String {
        if let Some(why) = &self.cannot_fail {
            return format!("This row cannot fail, and is not counted: {why}.");
        }
        let digits = match self.digits.unwrap_or(0) {
            0 => "to the unit, as it is published".to_string(),
            1.. => format!("to {} digits after the point, as it is published", self.digits.unwrap_or(0)),
            tens => format!("to 10^{}, as it is published", -tens),
        };
        match (&self.published, self.kind, self.relation) {
            (_, Kind::Context, _) | (Published::Nothing, ..) => {
                "This row is context, and cannot be missed.".into()
            }
            (Published::Number(_), _, PublishedRelation::AtMost | PublishedRelation::AtLeast) => {
                "A published limit has no tolerance.".into()
            }
            (Published::Range(_), ..) => "The published range is the tolerance.".into(),
            (Published::Number(_), Kind::Exact | Kind::Bound, _) => format!("It must be met {digits}."),
            (Published::Number(_) | Published::Order(_) | Published::Rows(_), ..) => {
                let Tolerance { share, because } = self.tolerance_in(study);
                // Binary fractions such as 0.07 have percentages with a rounding error.
                format!("Tolerance {} %: {because}.", (share * 1e4).round() / 1e2)
            }
        }
    }
}
