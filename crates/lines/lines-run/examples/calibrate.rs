//! Calibrates this machine with [`MachineCalibration::measured`] and prints the result: as text, or as JSON if the
//! first argument is `--json`.

use unrack_lines_run::calibrate::MachineCalibration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calibration = MachineCalibration::measured()?;
    match std::env::args().nth(1).as_deref() {
        Some("--json") => println!("{}", serde_json::to_string_pretty(&calibration)?),
        _ => print!("{calibration}"),
    }
    Ok(())
}
