//! Caches, latencies and rates of this machine.

use crate::error::Error;
use crate::load::{beside, look};
use crate::steps::Steps;
use unrack_lines_run::calibrate::MachineCalibration;

/// Returns what is known of this machine, or measures it: also if other work disturbed the last measurement and is gone.
///
/// # Errors
/// If it cannot be measured, or the question was canceled.
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

/// Measures this machine, which takes about a quarter of a minute, and keeps the result until it restarts, with a mark if other
/// work disturbed it.
///
/// # Errors
/// If it cannot be measured.
pub fn measure_machine() -> Result<MachineCalibration, Error> {
    let (calibration, load) = beside(MachineCalibration::measured);
    let calibration = calibration.map_err(|why| Error::Lacking(why.to_string()))?;
    let disturbance = load.disturbance().map(|why| why.to_string());
    let calibration = MachineCalibration { disturbance, ..calibration };
    calibration.keep();
    Ok(calibration)
}
