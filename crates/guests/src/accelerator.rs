//! Choice between KVM and emulation, by trial: `/dev/kvm` may be there and start no guest.

use crate::memory;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use unrack_live::Error;

/// Way in which QEMU runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    Kvm,
    /// Emulation by QEMU, which needs nothing of the machine.
    Tcg,
}

impl Accelerator {
    /// Returns the name in QEMU's options.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    /// Returns KVM if a guest of a few instructions runs with it.
    ///
    /// # Errors
    /// If there is no memory for that guest.
    pub(crate) fn choose(qemu: &str) -> Result<Accelerator, Error> {
        Ok(if works(qemu, Accelerator::Kvm)? { Accelerator::Kvm } else { Accelerator::Tcg })
    }
}

/// Time in which a few instructions run, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(5);
/// Value that the trial writes to the port of `isa-debug-exit`, and the exit status that QEMU makes of it.
const VALUE: u8 = 0x2a;
const STATUS: i32 = (VALUE as i32) << 1 | 1;

/// Returns firmware that writes [`VALUE`] to port 0xf4, and stops.
fn firmware() -> Vec<u8> {
    let mut image = vec![0xf4; 64 << 10];
    // The processor starts 16 bytes before the end: mov dx, 0xf4; mov al, VALUE; out dx, al; hlt.
    let start = image.len() - 16;
    image[start..start + 7].copy_from_slice(&[0xba, 0xf4, 0x00, 0xb0, VALUE, 0xee, 0xf4]);
    image
}

fn works(qemu: &str, accelerator: Accelerator) -> Result<bool, Error> {
    let firmware = memory::file("unrack-trial", &firmware())?;
    let accelerator = accelerator.name();
    let arguments = ["-nodefaults", "-no-user-config", "-display", "none", "-m", "16", "-machine", "pc"];
    let mut command = Command::new(qemu);
    command.args(arguments).args(["-accel", accelerator, "-cpu", "max", "-bios", &memory::path(&firmware)]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    crate::qemu::inherit(&mut command, &[firmware.as_fd()]);
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
        // It may have ended just now.
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(status.as_ref().and_then(ExitStatus::code) == Some(STATUS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::{Needed, skip};

    #[test]
    fn emulation_passes_the_trial() {
        if crate::machine::find_qemu().is_err() {
            return skip(Needed::Guests, "QEMU is not installed");
        }
        assert!(works(crate::machine::QEMU, Accelerator::Tcg).unwrap());
        assert!(!works("no-such-program", Accelerator::Tcg).unwrap());
    }
}
