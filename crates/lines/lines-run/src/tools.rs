//! Tools of an instrumented run: QEMU, and this project's plugin for it.

use crate::RunError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File name of the plugin.
const LIBRARY: &str = "libunrack_lines.so";
/// Environment variable with the path of the plugin, for a plugin that is not located near the executable.
pub const PLUGIN_VARIABLE: &str = "UNRACK_LINES_PLUGIN";
/// Environment variable with the path of QEMU, for a QEMU other than the one in `PATH`.
pub const QEMU_VARIABLE: &str = "UNRACK_QEMU";

/// Supported QEMU versions: the oldest one that provides everything this plugin needs, and the first one with another
/// interface. QEMU 9.0 rejects plugins of version 1 (QEMU, docs/about/removed-features).
const VERSIONS: std::ops::Range<(u32, u32)> = (7, 0)..(9, 0);

/// Tools of an instrumented run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    pub(crate) qemu: PathBuf,
    pub(crate) plugin: PathBuf,
}

impl Tools {
    /// Locates the tools, and checks that they work together.
    ///
    /// # Errors
    /// [`RunError::Lacking`], with what to install.
    pub fn find() -> Result<Tools, RunError> {
        Tools::with_plugin(plugin()?)
    }

    /// Locates QEMU for a plugin at this path.
    ///
    /// # Errors
    /// [`RunError::Lacking`], with what to install.
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

/// Locates a program in the same way as a shell.
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

/// Parses the version in the first line of the output of `qemu-x86_64 -version`.
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
