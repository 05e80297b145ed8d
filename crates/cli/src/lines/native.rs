//! Native runs of a program: wall time, and processor time of all its processes.

use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use unrack_paging::{MachineCounters, MachineLoad};
use unrack_record::Warning;

/// Times of one native run, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NativeRun {
    pub wall_s: f64,
    /// User time of the processes that were waited for, to 10 ms.
    pub user_s: f64,
    /// Their user and system time, to 10 ms.
    pub processor_s: f64,
    /// Other work that disturbed the run, if it did.
    pub disturbance: Option<Warning>,
}

/// Runs a command natively. Its standard input is empty, its output goes to `output`.
///
/// # Errors
/// If it cannot be started, or fails.
pub(crate) fn run(command: &[OsString], output: &Path) -> Result<NativeRun, Failure> {
    let (out, error) = outputs(output)?;
    let words = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let counters = MachineCounters::now();
    let (before, start) = (children_s(), Instant::now());
    let status = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(error)
        .status()
        .map_err(|why| Failure::Usage(format!("cannot run `{words}`: {why}")))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !status.success() {
        let text = format!(
            "the program ended with {status} when run natively: see its output in {}",
            output.display()
        );
        return Err(Failure::Failed(text));
    }
    let disturbance = MachineLoad::between(&counters, &MachineCounters::now()).disturbance();
    let after = children_s();
    let [user_s, system_s] = [0, 1].map(|kind| after[kind] - before[kind]);
    Ok(NativeRun { wall_s, user_s, processor_s: user_s + system_s, disturbance })
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

/// Returns the user time and the system time of all children that have ended and were waited for, in seconds.
fn children_s() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns `cutime` and `cstime` of a line of `/proc/PID/stat`, proc(5), fields 16 and 17.
fn children_ticks(stat: &str) -> [u64; 2] {
    // The second field is the program's name in brackets, in which anything may stand.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(13);
    [(); 2].map(|()| fields.next().and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::Folder;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 2 3 0 0 5 6 70 80 20 0 1 0";
        assert_eq!(children_ticks(stat), [70, 80]);
        assert_eq!(children_ticks(""), [0, 0]);
    }

    #[test]
    fn a_program_that_computes_takes_processor_time() {
        let folder = Folder::new("lines-native");
        let command = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done"];
        let run = run(&command.map(OsString::from), &folder.join("out")).unwrap();
        assert!(run.processor_s > 0.0 && run.wall_s > 0.01, "{run:?}");
        assert_eq!(std::fs::read_to_string(folder.join("out")).unwrap(), "done\n");
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        let folder = Folder::new("lines-native-fails");
        let Failure::Failed(text) = run(&["false".into()], &folder.join("out")).unwrap_err() else {
            panic!("a failure while running")
        };
        assert!(text.contains("natively"), "{text}");
    }
}
