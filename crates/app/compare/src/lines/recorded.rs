//! Options of an instrumented run, and the footprint that some placements need for them.

use super::placed::Placed;
use crate::error::{Error, failed};
use std::ffi::OsString;
use unrack_build::build;
use unrack_lines_run::Options;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_paging::{CheckedProgram, Input};
use unrack_units::Bytes;

/// Instructions from one window to the next at first: a program of 3 million has the windows that an interval takes. A longer
/// one reaches the limit, where the recorder drops every second window.
const PERIOD: u64 = 100_000;
/// Limit of a recording in bytes: some 800 windows, of which the core model runs about 50 a second.
const LIMIT: u64 = 64 << 20;

/// Returns the options of an instrumented run: the caches are those of this machine, as measured.
pub(crate) fn options(seed: u64, calibration: &MachineCalibration, placed: &Placed) -> Options {
    Options {
        seed,
        period: Some(PERIOD),
        limit: Some(LIMIT),
        processor: calibration.processor(),
        placements: Some(placed.recorded.clone()),
        ..Options::default()
    }
}

/// Returns the footprint of a program, remembered or from a native run.
///
/// # Errors
/// If it cannot be run, or ends before anything of it is seen.
pub(crate) fn footprint(command: &[OsString], input: &Input) -> Result<Bytes, Error> {
    let mut job = CheckedProgram::prepare(command)?;
    job.input = input.clone();
    let footprint = unrack_paging::footprint(&job, Some(&build()))?.footprint.bytes();
    if footprint.get() == 0 {
        return Err(failed(
            "the program ended before its footprint was seen: give it more to do, or give --local as a share with \
             --placement interleaved or hottest",
        ));
    }
    Ok(footprint)
}
