//! Caches, latencies and rates of this machine.

use crate::error::Error;
use crate::load::{beside, look};
use crate::steps::Steps;
use unrack_lines_run::calibrate::MachineCalibration;

/// Returns the stored calibration of this machine, or measures the machine if there is none. It also measures again if other work disturbed
/// the stored calibration and that work has ended.
///
/// # Errors
/// If the machine cannot be measured, or the question was canceled.
pub(crate) fn calibrated(steps: &Steps) -> Result<MachineCalibration, Error> {
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
