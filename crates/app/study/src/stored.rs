//! Stored values of ours, with bands: a later version must keep them, or replace them in the same change.
//!
//! `studies/ours.json` holds them for quick and full runs. `unrack study run … --store FILE` writes it. Values of studies that
//! measure the machine are not stored, because they differ from machine to machine; their verdicts are, for the overview.

use crate::compared::{Compared, StoredBand, Values, Verdict};
use crate::file::{Study, StudyScale};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Values of ours and verdicts, by study and by the name that [`names`] gives a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredValues {
    pub quick: BTreeMap<String, BTreeMap<String, StoredFigure>>,
    pub full: BTreeMap<String, BTreeMap<String, StoredFigure>>,
}

/// Stored values of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFigure {
    pub verdict: Verdict,
    /// Values of the seed of the scenario, in the sequence of [`Values`]. Empty for studies that measure the machine.
    pub values: Vec<f64>,
    /// Half of the 95 % interval of each value with another seed. Zero if the figure does not depend on a seed, or was run with one.
    pub band: Vec<f64>,
}

/// Largest difference that counts as equal, as a share: numbers are stored as decimal text.
const ROUNDING: f64 = 1e-9;

/// Returns the stored values that are built into the program.
///
/// # Panics
/// If the file is invalid, which a test excludes.
pub fn stored() -> &'static StoredValues {
    static STORED: OnceLock<StoredValues> = OnceLock::new();
    let text = include_str!("../../../../studies/ours.json");
    STORED.get_or_init(|| serde_json::from_str(text).expect("the file of stored values is valid"))
}

/// Returns the names of a study's figures: what each one is, with a number behind names that occur again.
pub fn names(study: &Study) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let name = |what: &str, times: u32| match times {
        1 => what.to_string(),
        times => format!("{what} ({times})"),
    };
    let numbered = study.figures.iter().map(|figure| {
        let times = seen.entry(&figure.what).or_default();
        *times += 1;
        name(&figure.what, *times)
    });
    numbered.collect()
}

impl StoredValues {
    fn of(&self, scale: StudyScale) -> &BTreeMap<String, BTreeMap<String, StoredFigure>> {
        match scale {
            StudyScale::Quick => &self.quick,
            StudyScale::Full => &self.full,
        }
    }

    /// Compares the values of a run with the stored ones; `None` if none are stored.
    pub fn band(&self, study: &str, scale: StudyScale, name: &str, values: &Values) -> Option<StoredBand> {
        let stored = self.of(scale).get(study)?.get(name).filter(|stored| !stored.values.is_empty())?;
        let is_near = |((ours, stored), band): ((&f64, &f64), &f64)| {
            (ours - stored).abs() <= band + stored.abs() * ROUNDING
        };
        let ours = &values.first_seed;
        let held = ours.len() == stored.values.len()
            && ours.iter().zip(&stored.values).zip(&stored.band).all(is_near);
        Some(StoredBand { values: stored.values.clone(), band: stored.band.clone(), held })
    }

    /// Returns the verdict that a full run of a figure had, if it is stored.
    pub fn verdict(&self, study: &str, name: &str) -> Option<Verdict> {
        Some(self.full.get(study)?.get(name)?.verdict)
    }

    /// Replaces everything that is stored of a study for runs of this scale.
    pub fn replace(&mut self, study: &Study, scale: StudyScale, figures: &[Compared]) {
        let stored = |compared: &Compared| {
            let Values { first_seed, band, .. } = &compared.values;
            // JSON has no number for a value that does not exist.
            let is_stored = !study.measured && first_seed.iter().chain(band).all(|value| value.is_finite());
            let (values, band) =
                if is_stored { (first_seed.clone(), band.clone()) } else { Default::default() };
            StoredFigure { verdict: compared.verdict, values, band }
        };
        let figures = names(study).into_iter().zip(figures.iter().map(stored));
        let of_scale = match scale {
            StudyScale::Quick => &mut self.quick,
            StudyScale::Full => &mut self.full,
        };
        of_scale.insert(study.name.clone(), figures.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(ours: &[f64]) -> Values {
        Values {
            ours: ours.to_vec(),
            first_seed: ours.to_vec(),
            band: vec![0.0; ours.len()],
            ..Values::default()
        }
    }

    #[test]
    fn a_value_outside_its_band_has_changed() {
        let figure = StoredFigure { verdict: Verdict::Met, values: vec![2.0, 5.0], band: vec![0.1, 0.0] };
        let mut stored = StoredValues::default();
        stored.full.insert("study".into(), BTreeMap::from([("figure".into(), figure)]));
        let held = |ours: &[f64]| {
            stored.band("study", StudyScale::Full, "figure", &values(ours)).map(|band| band.held)
        };
        assert_eq!(held(&[2.0, 5.0]), Some(true));
        assert_eq!(held(&[2.09, 5.0]), Some(true));
        assert_eq!(held(&[2.11, 5.0]), Some(false));
        assert_eq!(held(&[2.0, 5.0001]), Some(false));
        assert_eq!(held(&[2.0]), Some(false), "a value is missing");
        assert_eq!(held(&[f64::NAN, 5.0]), Some(false));
        assert_eq!(stored.band("study", StudyScale::Quick, "figure", &values(&[2.0])), None);
    }

    #[test]
    fn what_is_stored_belongs_to_figures_that_exist() {
        let studies = crate::all().unwrap();
        for (name, figures) in stored().quick.iter().chain(&stored().full) {
            let study = studies.iter().find(|study| study.name == *name);
            let known = names(study.unwrap_or_else(|| panic!("no study is called {name}")));
            let unknown: Vec<&String> = figures.keys().filter(|figure| !known.contains(figure)).collect();
            assert!(
                unknown.is_empty(),
                "{name}: {unknown:?}: write studies/ours.json again (make studies-stored)"
            );
        }
    }
}
