//! Shell that restores the machine, either on request or when no process is left that could request it.
//!
//! Before each step that changes the machine, the shell receives the line that undoes the step. The shell's input ends with the last
//! process that could still need the changes. Therefore not even a `kill -9` leaves a swap device behind. If the shell itself is killed,
//! its record of the lines stays, and the next `unrack swap` executes them.

use crate::error::{SwapError, failed, lacking};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Steps are undone from the last to the first; if one fails, the others are still executed.
const SHELL: &str = "trap '' HUP INT TERM
todo=
while read -r line; do
    if [ \"$line\" = undo ]; then break; fi
    todo=$(printf '%s\\n%s' \"$line\" \"$todo\")
done
eval \"$todo\" 2> /dev/null";

/// Folder of the records. A restart of the machine empties it, as it removes the devices.
const RECORDS: &str = "/run";
/// Start of a record's name, which ends with the process number of its shell.
const RECORD: &str = "unrack-swap-undo-";

/// Maximum time to wait for another `unrack swap`'s shell to execute its steps.
const PATIENCE: Duration = Duration::from_secs(10);

/// Steps that undo the changes to the machine.
#[derive(Debug)]
pub struct Undo {
    shell: Child,
    record: Option<File>,
}

impl Undo {
    /// Starts the shell. Must be called before any code that ends all children of this process.
    ///
    /// # Errors
    /// [`SwapError::Lacking`] if there is no shell.
    pub fn stand_by() -> Result<Undo, SwapError> {
        let mut command = Command::new("sh");
        command.args(["-c", SHELL]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Undo { shell: command.spawn().map_err(lacking("start a shell"))?, record: None })
    }

    /// Records all later steps in a file, after executing the steps of shells that were killed.
    pub(crate) fn record_in(&mut self, folder: &Path) -> Result<(), SwapError> {
        let what = format!("record in {} what is to be undone", folder.display());
        for entry in std::fs::read_dir(folder).map_err(lacking(&what))?.flatten() {
            let name = entry.file_name();
            let shell = name.to_str().and_then(|name| name.strip_prefix(RECORD)?.parse::<u32>().ok());
            if let Some(shell) = shell {
                undo_for(shell, &entry.path()).map_err(failed("undo what a killed `unrack swap` left"))?;
            }
        }
        let path = folder.join(format!("{RECORD}{}", self.shell.id()));
        self.add(&format!("rm -f '{}'", path.display()))?;
        self.record = Some(File::create(path).map_err(lacking(what))?);
        Ok(())
    }

    /// Records all later steps in this machine's folder for records.
    ///
    /// # Errors
    /// If the folder cannot be written, or the steps of a killed shell cannot be executed.
    pub(crate) fn record(&mut self) -> Result<(), SwapError> {
        self.record_in(Path::new(RECORDS))
    }

    /// Adds one line of shell, which undoes the change that follows.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), SwapError> {
        debug_assert!(!line.contains('\n'));
        if let Some(record) = &mut self.record {
            writeln!(record, "{line}").map_err(failed("record what is to be undone"))?;
        }
        let mut to = self.shell.stdin.as_ref().expect("its input is open until it has been asked");
        writeln!(to, "{line}")
            .map_err(|_| SwapError::Failed("the shell that undoes everything has ended".into()))
    }
}

/// Executes the steps of a record, unless its shell is still doing so, and removes the record.
fn undo_for(shell: u32, record: &Path) -> std::io::Result<()> {
    // The name is checked too, because the process number may belong to another process now.
    let is_at_work = || {
        let name = std::fs::read_to_string(format!("/proc/{shell}/comm"));
        record.exists() && name.is_ok_and(|name| name.trim() == "sh")
    };
    let deadline = Instant::now() + PATIENCE;
    while is_at_work() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let Ok(steps) = std::fs::read_to_string(record) else { return Ok(()) };
    let steps: Vec<&str> = steps.lines().rev().collect();
    let shell = Command::new("sh")
        .args(["-c", &steps.join("\n")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    shell.and_then(|_| std::fs::remove_file(record))
}

impl Drop for Undo {
    /// Undoes all steps, and waits until that is done.
    fn drop(&mut self) {
        // A shell that has ended has undone all steps.
        if let Some(mut to) = self.shell.stdin.take() {
            let _ = to.write_all(b"undo\n");
        }
        if let Some(mut done) = self.shell.stdout.take() {
            let _ = done.read(&mut [0]);
        }
        // The shell may be the child of a process from which this one was forked.
        let _ = self.shell.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn the_last_step_is_undone_first_and_one_that_fails_stops_no_other() {
        let folder = TestFolder::new("undo");
        let file = folder.join("steps");
        let mut undo = Undo::stand_by().unwrap();
        for step in ["echo first >> F", "false", "no-such-command", "echo 'a  b' >> F"] {
            undo.add(&step.replace('F', file.to_str().unwrap())).unwrap();
        }
        assert!(!file.exists());
        drop(undo);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "a  b\nfirst\n");
    }

    #[test]
    fn a_shell_whose_owner_is_gone_undoes_all() {
        let folder = TestFolder::new("undo-alone");
        let file = folder.join("steps");
        let mut undo = Undo::stand_by().unwrap();
        undo.add(&format!("echo done > {}", file.display())).unwrap();
        drop(undo.shell.stdin.take());
        assert!(undo.shell.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "done\n");
    }

    #[test]
    fn what_a_killed_shell_left_is_undone_by_the_next() {
        let folder = TestFolder::new("undo-killed");
        let file = folder.join("steps");
        let mut killed = Undo::stand_by().unwrap();
        killed.record_in(&folder).unwrap();
        for step in ["echo first >> F", "false", "echo second >> F"] {
            killed.add(&step.replace('F', file.to_str().unwrap())).unwrap();
        }
        killed.shell.kill().unwrap();
        killed.shell.wait().unwrap();
        assert!(!file.exists());
        let mut next = Undo::stand_by().unwrap();
        next.record_in(&folder).unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "second\nfirst\n");
        let records =
            || std::fs::read_dir(&*folder).unwrap().flatten().filter(|it| it.file_name() != "steps").count();
        assert_eq!(records(), 1);
        drop(next);
        assert_eq!(records(), 0);
    }
}
