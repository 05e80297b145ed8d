//! Storage of a calibration in the user's cache directory. A stored calibration is valid until the machine is rebooted.
//!
//! A stored calibration that cannot be read is treated as missing, and an error of writing is ignored, because the
//! calibration can always be measured again.

use super::{Described, MachineCalibration};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Version of the file format. A file of another version is ignored, so that the calibration is measured again.
const VERSION: u32 = 4;

#[derive(Serialize, Deserialize)]
struct CalibrationFile {
    version: u32,
    /// Boot ID of the kernel when the calibration was stored.
    boot: String,
    calibration: MachineCalibration,
}

/// Returns the path of the user's stored calibration, or `None` if the user's cache directory is unknown.
fn path() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    Some(folder.join("unrack/lines-calibration.json"))
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

/// Returns the stored calibration, or `None` if there is none that is valid for this machine and this boot.
pub(super) fn get() -> Option<MachineCalibration> {
    read(&path()?, &boot(), &Described::this())
}

/// Stores a calibration.
pub(super) fn put(calibration: &MachineCalibration) {
    if let Some(path) = path() {
        // If this fails, the next command measures again.
        let _ = write(&path, &boot(), calibration);
    }
}

fn read(path: &Path, boot: &str, described: &Described) -> Option<MachineCalibration> {
    let kept: CalibrationFile = unrack_record::read_json(path).ok()?;
    let is_ours = kept.version == VERSION && kept.boot == boot && kept.calibration.described == *described;
    (is_ours && kept.calibration.is_sound()).then_some(kept.calibration)
}

fn write(path: &Path, boot: &str, calibration: &MachineCalibration) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let kept = CalibrationFile { version: VERSION, boot: boot.into(), calibration: calibration.clone() };
    unrack_record::write_private_json(path, &kept).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn what_was_kept_is_found_on_the_same_machine_until_it_restarts() {
        let folder = TestFolder::new("calibration-kept");
        let path = folder.join("deep/lines.json");
        let calibration = example();
        assert_eq!(read(&path, "a", &calibration.described), None);
        write(&path, "a", &calibration).unwrap();
        assert_eq!(read(&path, "a", &calibration.described), Some(calibration.clone()));
        assert_eq!(read(&path, "b", &calibration.described), None);
        let other = Described { cores: 77, ..calibration.described.clone() };
        assert_eq!(read(&path, "a", &other), None);
        std::fs::write(&path, "{ \"version\": 2, ").unwrap();
        assert_eq!(read(&path, "a", &calibration.described), None);
    }
}
