//! Costs that were measured on a machine, and simulations of a study with these costs.
//!
//! `bench/sockets.sh --costs FILE` measures the costs of messages between two processes, through the kernel's TCP and by
//! reference (`unrack sockets`). A study names the settings that the costs replace ([`Study::costs`]). Its points are then
//! simulated a second time with the replaced settings; the rest of the scenario does not change.

use crate::compared::{Compared, number};
use crate::error::StudyError;
use crate::file::{Direct, Figure, Study};
use serde::{Deserialize, Serialize};
use std::path::Path;
use unrack_units::{Rate, Time};

/// Measured costs of messages on a machine, in the format that the benchmark writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCosts {
    /// Processor and kernel of the machine.
    pub machine: String,
    /// One-way times in ns of messages of 64 B and 1 KiB through the kernel's TCP.
    pub by_value_ns: Messages,
    /// One-way times in ns of messages of 64 B and 1 KiB by reference.
    pub by_reference_ns: Messages,
    /// Rate of a stream by reference, in which each side copies every byte once.
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

/// Maximum bytes of the file.
const MOST_BYTES: u64 = 1 << 16;
/// Longest plausible time of a message: one second. A file with a longer time is rejected.
const LONGEST_NS: f64 = 1e9;
/// Fastest plausible copy: one terabyte per second. A file with a higher rate is rejected.
const FASTEST: f64 = 1e12;

impl MeasuredCosts {
    /// Reads the file of a measurement.
    ///
    /// # Errors
    /// [`StudyError::Costs`] if the file cannot be read, or does not have the format that the benchmark writes.
    pub fn load(path: &Path) -> Result<MeasuredCosts, StudyError> {
        let refuse = |why: String| StudyError::Costs { path: path.into(), why };
        let text = unrack_input::read_text(path, MOST_BYTES).map_err(|why| refuse(why.to_string()))?;
        MeasuredCosts::parse(&text).map_err(refuse)
    }

    /// Parses the text of a measurement.
    ///
    /// # Errors
    /// The reason why the text is not a valid measurement.
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

    /// Returns a copy of the study whose points use these costs, or `None` if the study does not use measured costs.
    pub fn applied(&self, study: &Study) -> Option<Study> {
        let set: Vec<String> = study.costs.iter().map(|setting| self.filled(setting)).collect();
        let mut study = study.clone();
        for grid in &mut study.grids {
            grid.set.extend(set.iter().cloned());
        }
        (!set.is_empty()).then_some(study)
    }

    /// Returns a setting in which the names of costs are replaced by their values.
    fn filled(&self, setting: &str) -> String {
        // A one-way time contains the work of the sender and of the receiver, so each side takes half of it.
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

    /// Adds to the figures of a study those that were simulated with these costs, and those that were measured directly.
    pub fn beside(&self, figures: &mut [Compared], asked: &[Figure], simulated: &[Compared]) {
        for ((figure, asked), simulated) in figures.iter_mut().zip(asked).zip(simulated) {
            figure.with_costs = Some(simulated.ours.clone()).filter(|ours| !ours.is_empty());
            figure.measured = asked.measured.map(|direct| number(self.direct(direct)));
        }
    }

    /// Returns a description of the measured costs for the page of results.
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
