//! Choice between KVM and emulation. It is made by a trial, because `/dev/kvm` may exist although it cannot run a guest.

use crate::memory;
use crate::trial::{STATUS, firmware};
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use unrack_live::Error;

/// How QEMU runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    Kvm,
    /// Emulation by QEMU, which requires no feature of the machine.
    Tcg,
}

impl Accelerator {
    /// Returns the name of the accelerator in QEMU's options.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// Returns KVM if a trial guest under KVM reaches 64-bit mode, receives a timer interrupt, and runs at the speed of a processor.
    /// Returns emulation otherwise.
    ///
    /// # Errors
    /// Fails if there is no memory for the trial guest.
    pub(crate) fn choose(qemu: &str) -> Result<Accelerator, Error> {
        Ok(if works(qemu, Accelerator::Kvm)? { Accelerator::Kvm } else { Accelerator::Tcg })
    }

    /// Returns the first accelerator that passes the trial; `None` if none passes.
    ///
    /// # Errors
    /// As [`Accelerator::choose`].
    pub(crate) fn find(qemu: &str) -> Result<Option<Accelerator>, Error> {
        let chosen = Accelerator::choose(qemu)?;
        Ok((chosen == Accelerator::Kvm || works(qemu, chosen)?).then_some(chosen))
    }
}

/// Time that the trial may take. It lasts a fraction of a second under KVM and also under emulation. On a machine that is too busy for
/// this, guests are emulated.
const PATIENCE: Duration = Duration::from_secs(5);
const ROUND: Duration = Duration::from_millis(5);

fn works(qemu: &str, accelerator: Accelerator) -> Result<bool, Error> {
    let firmware = memory::file("unrack-trial", &firmware())?;
    let accelerator = accelerator.name();
    let arguments =
        ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-m", "16", "-machine", "pc"];
    let mut command = Command::new(qemu);
    command.args(arguments).args(["-accel", accelerator, "-cpu", "max", "-bios", &memory::path(&firmware)]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    memory::inherit(&mut command, &[firmware.as_fd()]);
    let Ok(mut child) = command.spawn() else { return Ok(false) };
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(ROUND),
            Ok(Some(status)) => break Some(status),
            _ => break None,
        }
    };
    if status.is_none() {
        // Ignore errors, because the process may just have ended.
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(status.as_ref().and_then(ExitStatus::code) == Some(STATUS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::{TestRequirement, skip};

    #[test]
    fn a_program_that_stands_still_or_reports_another_status_fails_the_trial() {
        let folder = unrack_testing::TestFolder::new("trial");
        let (text, program) = (folder.join("text"), folder.join("qemu"));
        for (line, passes) in [("exit 85", true), ("exit 0", false), ("exec sleep 60", false)] {
            std::fs::write(&text, format!("#!/bin/sh\n{line}\n")).unwrap();
            // The program must not be a file that this process writes, because a child of another test may hold such a file open for
            // writing, which makes it busy.
            let install = Command::new("install").args(["-m", "755"]).args([&text, &program]).status();
            assert!(install.unwrap().success());
            assert_eq!(works(program.to_str().unwrap(), Accelerator::Kvm).unwrap(), passes, "{line}");
        }
    }

    #[test]
    fn emulation_passes_the_trial() {
        if crate::machine::find_qemu().is_err() {
            return skip(TestRequirement::Guests, "QEMU is not installed");
        }
        assert!(works(crate::machine::QEMU, Accelerator::Tcg).unwrap());
        assert!(!works("no-such-program", Accelerator::Tcg).unwrap());
    }
}
