//! Prints what [`MachineCalibration::measured`] finds on this machine: as text, or as JSON if the first word is `--json`.

use unrack_lines_run::calibrate::MachineCalibration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calibration = MachineCalibration::measured()?;
    match std::env::args().nth(1).as_deref() {
        Some("--json") => println!("{}", serde_json::to_string_pretty(&calibration)?),
        _ => print!("{calibration}"),
    }
    Ok(())
}
