//! Shell that puts everything back: when it is asked to, or when nobody is left who could ask.
//!
//! It is told each step that undoes something before that is done. Its input ends with the last process that could still
//! need these things; so a `kill -9` leaves no swap device behind.

use crate::error::{SwapError, lacking};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Steps are undone from the last to the first; one that fails does not keep others from being done.
const SHELL: &str = "trap '' HUP INT TERM
todo=
while read -r line; do
    if [ \"$line\" = undo ]; then break; fi
    todo=$(printf '%s\\n%s' \"$line\" \"$todo\")
done
eval \"$todo\" 2> /dev/null";

/// Steps to undo.
#[derive(Debug)]
pub struct Undo {
    shell: Child,
}

impl Undo {
    /// Starts the shell. Call it before anything that ends all children of this process.
    ///
    /// # Errors
    /// [`SwapError::Lacking`] if there is no shell.
    pub fn stand_by() -> Result<Undo, SwapError> {
        let mut command = Command::new("sh");
        command.args(["-c", SHELL]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Undo { shell: command.spawn().map_err(lacking("start a shell"))? })
    }

    /// Adds one line of shell, which undoes what comes next.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), SwapError> {
        debug_assert!(!line.contains('\n'));
        let mut to = self.shell.stdin.as_ref().expect("its input is open until it has been asked");
        writeln!(to, "{line}")
            .map_err(|_| SwapError::Failed("the shell that undoes everything has ended".into()))
    }
}

impl Drop for Undo {
    /// Undoes all steps, and waits until that is done.
    fn drop(&mut self) {
        // A shell that has ended has undone everything.
        if let Some(mut to) = self.shell.stdin.take() {
            let _ = to.write_all(b"undo\n");
        }
        if let Some(mut done) = self.shell.stdout.take() {
            let _ = done.read(&mut [0]);
        }
        // It may be the child of a process that this one was forked from.
        let _ = self.shell.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::Folder;

    #[test]
    fn the_last_step_is_undone_first_and_one_that_fails_stops_no_other() {
        let folder = Folder::new("undo");
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
        let folder = Folder::new("undo-alone");
        let file = folder.join("steps");
        let mut undo = Undo::stand_by().unwrap();
        undo.add(&format!("echo done > {}", file.display())).unwrap();
        drop(undo.shell.stdin.take());
        assert!(undo.shell.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "done\n");
    }
}
