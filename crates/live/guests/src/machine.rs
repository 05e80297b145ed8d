//! Checks whether this machine can run guests.

use crate::accelerator::Accelerator;
use crate::initramfs::busybox;
use crate::kernel::InstalledKernel;
use std::path::PathBuf;
use unrack_live::Error;

/// Program that runs a guest.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// Checks the requirements that can be checked without starting anything: the processor, QEMU, a kernel with its modules, and busybox.
///
/// # Errors
/// [`Error::Lacking`] names the missing requirement and the package that contains it.
pub fn check_machine() -> Result<(), Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Lacking("virtual machines are for x86-64, and so must this machine be".into()));
    }
    find_qemu()?;
    busybox()?;
    InstalledKernel::find().map(drop)
}

/// Checks that this machine can run guests, by trial. Returns the accelerator that they would use.
///
/// # Errors
/// [`Error::Lacking`] if a requirement is missing, or if QEMU cannot run any guest.
pub fn try_machine() -> Result<Accelerator, Error> {
    check_machine()?;
    Accelerator::find(QEMU)?.ok_or_else(|| {
        Error::Lacking(format!(
            "`{QEMU}` runs no guest here, with KVM or without: `{QEMU} -accel tcg` shows why"
        ))
    })
}

/// Finds QEMU in the folders of `PATH`.
pub(crate) fn find_qemu() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(QEMU)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Lacking(format!("`{QEMU}` is not installed: it is in the package qemu-system-x86"))
    })
}
