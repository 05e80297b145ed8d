//! Caches, latencies and rates of this machine.

use crate::error::Error;
use crate::load::{beside, look};
use crate::steps::QuestionSteps;
use unrack_lines_run::calibrate::MachineCalibration;

/// Returns the stored calibration of this machine. If there is none, it measures the machine. If other work disturbed the stored
/// calibration and has ended, it measures the machine again.
///
/// # Errors
/// If the machine cannot be measured, or the question was canceled.
pub(crate) fn calibrated(steps: &QuestionSteps) -> Result<MachineCalibration, Error> {
    match MachineCalibration::kept() {
        Some(kept) if kept.disturbance.is_none() || look().disturbance.is_some() => Ok(kept),
        kept => {
            let again = if kept.is_some() { " again, which other work had disturbed," } else { "" };
            steps.begin(format!("measuring this machine's caches{again} for about a quarter of a minute"))?;
            measure_machine()
        }
    }
}

/// Measures this machine, which takes about 15 seconds, and stores the result until the machine restarts. If other work disturbed the
/// measurement, the result is marked.
///
/// # Errors
/// If the machine cannot be measured.
pub fn measure_machine() -> Result<MachineCalibration, Error> {
    let (calibration, load) = beside(MachineCalibration::measured);
    let calibration = calibration.map_err(|why| Error::Lacking(why.to_string()))?;
    let disturbance = load.disturbance().map(|why| why.to_string());
    let calibration = MachineCalibration { disturbance, ..calibration };
    calibration.keep();
    Ok(calibration)
}
