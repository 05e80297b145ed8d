//! Tools that an instrumented run requires: QEMU, and the plugin of this project for QEMU.

use crate::RunError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File name of the plugin's library.
const LIBRARY: &str = "libunrack_lines.so";
/// Name of the environment variable with the path of the plugin. It is used for a plugin that is not located near the
/// executable.
pub const PLUGIN_VARIABLE: &str = "UNRACK_LINES_PLUGIN";
/// Name of the environment variable with the path of QEMU. It is used for a QEMU other than the one in `PATH`.
pub const QEMU_VARIABLE: &str = "UNRACK_QEMU";

/// Supported versions of QEMU. The lower limit is the oldest version that provides everything the plugin needs. The
/// upper limit, 9.0, is excluded, because QEMU 9.0 rejects plugins for version 1 of the interface (QEMU,
/// docs/about/removed-features).
const VERSIONS: std::ops::Range<(u32, u32)> = (7, 0)..(9, 0);

/// Paths of the tools that an instrumented run requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    pub(crate) qemu: PathBuf,
    pub(crate) plugin: PathBuf,
}

impl Tools {
    /// Locates QEMU and the plugin, and checks that they work together.
    ///
    /// # Errors
    /// [`RunError::Lacking`] if a tool is missing or not supported. Its text names what the user should install.
    pub fn find() -> Result<Tools, RunError> {
        Tools::with_plugin(plugin()?)
    }

    /// Locates QEMU, and checks that it works together with the plugin at this path.
    ///
    /// # Errors
    /// [`RunError::Lacking`] if a tool is missing or not supported. Its text names what the user should install.
    pub fn with_plugin(plugin: PathBuf) -> Result<Tools, RunError> {
        let qemu = qemu()?;
        check(&qemu)?;
        Ok(Tools { qemu, plugin })
    }
}

fn lacking<T>(why: String) -> Result<T, RunError> {
    Err(RunError::Lacking(why))
}

fn qemu() -> Result<PathBuf, RunError> {
    if let Some(named) = std::env::var_os(QEMU_VARIABLE) {
        let named = PathBuf::from(named);
        return match absolute(&named) {
            Some(path) => Ok(path),
            None => lacking(format!("{QEMU_VARIABLE} names {}, which is no file", named.display())),
        };
    }
    match in_path(OsStr::new("qemu-x86_64")) {
        Some(path) => Ok(path),
        None => lacking(
            "qemu-x86_64 is not installed: install QEMU's user mode (Debian and Ubuntu: apt install qemu-user), \
             version 7.0 to 8.2"
                .into(),
        ),
    }
}

/// Locates the file of a program in the directories of `PATH`, as a shell does.
pub(crate) fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let executable =
        |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(executable)
}

fn plugin() -> Result<PathBuf, RunError> {
    if let Some(named) = std::env::var_os(PLUGIN_VARIABLE) {
        let named = PathBuf::from(named);
        return match absolute(&named) {
            Some(path) => Ok(path),
            None => lacking(format!("{PLUGIN_VARIABLE} names {}, which is no file", named.display())),
        };
    }
    let executable = std::env::current_exe().map_err(RunError::failed("find this executable"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/unrack").join(LIBRARY)];
    match places.iter().find_map(|place| absolute(place)) {
        Some(path) => Ok(path),
        None => lacking(format!(
            "{LIBRARY} is neither in {} nor in {}: build the whole workspace, or name it in {PLUGIN_VARIABLE}",
            folder.display(),
            folder.join("../lib/unrack").display()
        )),
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

fn check(qemu: &Path) -> Result<(), RunError> {
    let said = |argument| {
        let output = Command::new(qemu).arg(argument).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let text = said("-version").map_err(RunError::failed("run qemu-x86_64"))?;
    let line = text.lines().next().unwrap_or_default();
    match version(line) {
        Some(version) if VERSIONS.contains(&version) => {}
        _ => {
            return lacking(format!(
                "{} is \"{line}\": QEMU 7.0 to 8.2 is needed; name one in {QEMU_VARIABLE}",
                qemu.display()
            ));
        }
    }
    let options = said("-h").map_err(RunError::failed("run qemu-x86_64"))?;
    match options.contains("-plugin") {
        true => Ok(()),
        false => lacking(format!(
            "{} was built without plugins: install QEMU's user mode as your distribution builds it, or name another \
             in {QEMU_VARIABLE}",
            qemu.display()
        )),
    }
}

/// Returns the version in the first line of the output of `qemu-x86_64 -version`.
fn version(line: &str) -> Option<(u32, u32)> {
    let (_, version) = line.strip_prefix("qemu-x86_64")?.split_once("version ")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let line = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)";
        assert_eq!(version(line), Some((7, 2)));
        assert_eq!(version("qemu-x86_64 version 10.0"), Some((10, 0)));
        assert_eq!(version("valgrind-3.19.0"), None);
        assert!(VERSIONS.contains(&(8, 2)) && !VERSIONS.contains(&(9, 0)) && !VERSIONS.contains(&(6, 2)));
    }

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert!(in_path(OsStr::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(in_path(OsStr::new("no-such-program-of-unrack")), None);
    }
}
