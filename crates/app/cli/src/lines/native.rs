//! Native runs of a program: wall time, and processor time of all its processes.

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use unrack_paging::{CheckedProgram, Input, OutputTarget, TimedRun, timed};

/// Runs a command natively. Its output goes to `output`, or is discarded. All its processes end at `until`, or when this process is
/// asked to stop.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn run(
    command: &[OsString],
    input: &Input,
    output: Option<&Path>,
    until: Option<Instant>,
) -> Result<TimedRun, Failure> {
    let mut job = CheckedProgram::for_native_runs(command)?;
    job.input = input.clone();
    let target = output.map_or(OutputTarget::Discarded, |path| OutputTarget::File(path.into()));
    let run = timed(&job, &target, until)?;
    if run.status.is_success() {
        return Ok(run);
    }
    let see = output.map_or(String::new(), |path| format!(": see its output in {}", path.display()));
    Err(Failure::Failed(format!("the program ended with {} when run natively{see}", run.status)))
}

/// Opens the file that a program's standard output and error go to.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn outputs(path: &Path) -> Result<(File, File), Failure> {
    let failed = |why| Failure::Failed(format!("cannot write {}: {why}", path.display()));
    let file = File::create(path).map_err(failed)?;
    Ok((file.try_clone().map_err(failed)?, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::Folder;

    #[test]
    fn a_program_that_computes_takes_processor_time() {
        let folder = Folder::new("lines-native");
        let command = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"];
        let output = folder.join("out");
        let run = run(&command.map(OsString::from), &Input::Empty, Some(&output), None).unwrap();
        assert!(run.processor_s > 0.0 && run.wall_s > 0.01, "{run:?}");
        assert_eq!(std::fs::read_to_string(output).unwrap(), "done\n");
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        let folder = Folder::new("lines-native-fails");
        let run = run(&["false".into()], &Input::Empty, Some(&folder.join("out")), None);
        let Failure::Failed(text) = run.unwrap_err() else { panic!("a failure while running") };
        assert!(text.contains("natively"), "{text}");
    }
}
