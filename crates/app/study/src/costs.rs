//! Costs that were measured on a machine, and a study simulated with them.
//!
//! `bench/sockets.sh --costs FILE` measures them: messages between two processes, through the kernel's TCP and by reference
//! (`unrack sockets`). A study names the settings that they replace ([`Study::costs`]); its points are then simulated a second
//! time. Everything else of its scenario stays.

use crate::error::StudyError;
use crate::figure::{Compared, number};
use crate::file::{Direct, Figure, Study};
use serde::{Deserialize, Serialize};
use std::path::Path;
use unrack_units::{Rate, Time};

/// Costs of messages on a machine, as a bench writes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCosts {
    /// Processor and kernel of the machine.
    pub machine: String,
    /// Times one way, in ns, of messages of 64 B and 1 KiB through the kernel's TCP.
    pub by_value_ns: Messages,
    /// The same by reference.
    pub by_reference_ns: Messages,
    /// Rate of a stream by reference, of which each side copies every byte once.
    pub copy_bytes_per_s: f64,
}

/// Times by the size of a message.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    #[serde(rename = "64")]
    pub small: f64,
    #[serde(rename = "1024")]
    pub large: f64,
}

/// Most bytes of the file.
const MOST_BYTES: u64 = 1 << 16;
/// Longest time of a message that is believed: a second.
const LONGEST_NS: f64 = 1e9;
/// Fastest copy that is believed: a terabyte a second.
const FASTEST: f64 = 1e12;

impl MeasuredCosts {
    /// Reads the file of a measurement.
    ///
    /// # Errors
    /// [`StudyError::Costs`] if it is not what the bench writes.
    pub fn load(path: &Path) -> Result<MeasuredCosts, StudyError> {
        let refuse = |why: String| StudyError::Costs { path: path.into(), why };
        let text = unrack_input::read_text(path, MOST_BYTES).map_err(|why| refuse(why.to_string()))?;
        MeasuredCosts::parse(&text).map_err(refuse)
    }

    /// Parses the text of a measurement.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn parse(text: &str) -> Result<MeasuredCosts, String> {
        let costs: MeasuredCosts = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let Messages { small, large } = costs.by_value_ns;
        let Messages { small: referred, large: referred_large } = costs.by_reference_ns;
        let is_time = |ns: f64| ns > 0.0 && ns <= LONGEST_NS;
        if ![small, large, referred, referred_large].into_iter().all(is_time) {
            return Err("a message takes more than none and at most a second, in ns".into());
        }
        if !(costs.copy_bytes_per_s >= 1e6 && costs.copy_bytes_per_s <= FASTEST) {
            return Err("`copy_bytes_per_s` is from 1e6 to 1e12".into());
        }
        Ok(costs)
    }

    /// Returns a study whose points have these costs; none if the study takes none.
    pub fn applied(&self, study: &Study) -> Option<Study> {
        let set: Vec<String> = study.costs.iter().map(|setting| self.filled(setting)).collect();
        let mut study = study.clone();
        for grid in &mut study.grids {
            grid.set.extend(set.iter().cloned());
        }
        (!set.is_empty()).then_some(study)
    }

    /// Returns a setting with the costs in place of their names.
    fn filled(&self, setting: &str) -> String {
        // One way is a side that sends and a side that receives.
        let side = |ns: f64| Time::from_ps((ns * 500.0).round() as u64).to_string();
        let copies = Rate::from_bps((self.copy_bytes_per_s * 8.0).round() as u64).to_string();
        setting
            .replace("{packet_time}", &side(self.by_value_ns.small))
            .replace("{reference_time}", &side(self.by_reference_ns.small))
            .replace("{copy_rate}", &copies)
    }

    fn direct(&self, figure: Direct) -> f64 {
        match figure {
            Direct::ReferenceOverValue => self.by_reference_ns.large / self.by_value_ns.large,
        }
    }

    /// Puts figures that were simulated with these costs, and those that the machine gives directly, beside a study's.
    pub fn beside(&self, figures: &mut [Compared], asked: &[Figure], simulated: &[Compared]) {
        for ((figure, asked), simulated) in figures.iter_mut().zip(asked).zip(simulated) {
            figure.with_costs = Some(simulated.ours.clone()).filter(|ours| !ours.is_empty());
            figure.measured = asked.measured.map(|direct| number(self.direct(direct)));
        }
    }

    /// Returns the sentences that say what was measured, for the page.
    pub fn words(&self) -> String {
        let us = |ns: f64| number(ns / 1000.0);
        let (value, reference) = (self.by_value_ns, self.by_reference_ns);
        format!(
            "Measured on {}: one way, a message of 64 B takes {} us through the kernel's TCP and {} us by reference, one of \
             1 KiB {} and {} us; a core copies {} GB/s.",
            self.machine,
            us(value.small),
            us(reference.small),
            us(value.large),
            us(reference.large),
            number(self.copy_bytes_per_s / 1e9)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::StudyScale;
    use crate::grid::points;

    const TEXT: &str = r#"{"machine": "a test", "by_value_ns": {"64": 8000.0, "1024": 10000.0},
        "by_reference_ns": {"64": 300.0, "1024": 500.0}, "copy_bytes_per_s": 10e9}"#;

    fn study() -> Study {
        crate::all().unwrap().into_iter().find(|study| study.name == "drack/fig13").unwrap()
    }

    #[test]
    fn every_point_has_the_measured_costs_and_can_be_run() {
        let (costs, study) = (MeasuredCosts::parse(TEXT).unwrap(), study());
        let with = costs.applied(&study).unwrap();
        let (plain, costed) = (points(&study, StudyScale::Quick), points(&with, StudyScale::Quick));
        assert_eq!(plain.len(), costed.len());
        for (plain, costed) in plain.into_iter().zip(costed) {
            assert_eq!(plain.labels, costed.labels);
            let (plain, costed) = (plain.ready(&study).unwrap(), costed.ready(&with).unwrap());
            assert_ne!(plain.scenario_hash, costed.scenario_hash);
            let cpu = costed.scenario.host.unwrap().cpu;
            assert_eq!(
                (cpu.packet_time, cpu.reference_time),
                (Time::from_ns(4000), Some(Time::from_ns(150)))
            );
            assert_eq!(cpu.copy_rate, Some(Rate::from_gbps(80)));
        }
    }

    #[test]
    fn studies_that_name_no_costs_take_none() {
        let costs = MeasuredCosts::parse(TEXT).unwrap();
        let takers: Vec<String> =
            crate::all().unwrap().iter().filter_map(|study| costs.applied(study)).map(|it| it.name).collect();
        assert_eq!(takers, ["drack/fig13"]);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        for (from, to) in [("300.0", "0"), ("10e9", "1e300"), ("8000.0", "-1"), ("machine", "host")] {
            let text = TEXT.replace(from, to);
            assert!(text != TEXT && MeasuredCosts::parse(&text).is_err(), "{text}");
        }
    }
}
