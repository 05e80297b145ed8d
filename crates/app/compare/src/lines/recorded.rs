//! Options of an instrumented run, and the footprint that some placements need for them.

use super::placed::PlacementSet;
use crate::error::{Error, failed};
use std::ffi::OsString;
use unrack_build::build;
use unrack_lines_run::Options;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_paging::{CheckedProgram, Input};
use unrack_units::Bytes;

/// Instructions from the start of one recorded window to the next, initially. With this period a program of 3 million instructions has
/// enough windows for an interval. A longer program reaches the size limit, at which the recorder drops every second window.
const PERIOD: u64 = 100_000;
/// Size limit of a recording in bytes, which allows about 800 windows. The core model processes about 50 windows a second.
const LIMIT: u64 = 64 << 20;

/// Returns the options of an instrumented run. The simulated caches are those of this machine, as measured.
pub(crate) fn options(seed: u64, calibration: &MachineCalibration, placed: &PlacementSet) -> Options {
    Options {
        seed,
        period: Some(PERIOD),
        limit: Some(LIMIT),
        processor: calibration.processor(),
        placements: Some(placed.recorded.clone()),
        ..Options::default()
    }
}

/// Returns the footprint of a program, from an earlier run or from a native run made now.
///
/// # Errors
/// If the program cannot be run, or ends before its footprint can be measured.
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
