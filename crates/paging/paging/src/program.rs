//! Finds the file that a command runs, and checks that the program's memory can be made remote.
//!
//! All checks happen before the program starts. A script is followed to its interpreter, and through `env` to the program that `env` will
//! run.

use crate::PagingError;
use crate::elf::{self, Elf, PagerEntry};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Depth to which the kernel follows nested interpreters.
const DEEPEST_SCRIPT: usize = 5;
const SET_ID: u32 = 0o6000;

/// A command whose file was found and checked.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The file that will be executed.
    pub path: PathBuf,
    /// The command as given.
    pub command: Vec<OsString>,
    /// How the pager gets into the first program that runs.
    pub entrance: PagerEntry,
    /// Whether the program contains LeakSanitizer, which traces its own process, so that no other process can trace it.
    pub traces_itself: bool,
}

impl Program {
    /// Finds and checks the file of a command.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no such program, [`PagingError::Lacking`] if it exists but cannot run with remote memory.
    pub(crate) fn resolve(command: &[OsString]) -> Result<Program, PagingError> {
        let name = command.first().ok_or_else(|| PagingError::Usage("there is no command to run".into()))?;
        let path = find(name)?;
        let entrance = check(&path, 0)?;
        let traces_itself = has_leak_sanitizer(&path);
        Ok(Program { path, command: command.to_vec(), entrance, traces_itself })
    }

    /// Returns the command in readable form.
    pub(crate) fn words(&self) -> Vec<String> {
        self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

/// Returns whether a file contains LeakSanitizer, or names a library that contains it.
fn has_leak_sanitizer(path: &Path) -> bool {
    // SAFETY: the mapping is only read. If the file changes meanwhile, either answer is acceptable.
    let Ok(text) = File::open(path).and_then(|file| unsafe { memmap2::Mmap::map(&file) }) else {
        return false;
    };
    [&b"__lsan_is_turned_off"[..], b"libasan.so", b"liblsan.so"]
        .iter()
        .any(|name| memchr::memmem::find(&text, name).is_some())
}

/// Finds a program as the shell does: a name with a slash is a path, any other name is looked up in `PATH`.
fn find(name: &OsStr) -> Result<PathBuf, PagingError> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/bin:/usr/bin".into());
    let found: Vec<_> = std::env::split_paths(&path)
        // An empty entry means the current folder.
        .map(|folder| Path::new(".").join(folder).join(name))
        .filter(|file| !name.is_empty() && file.is_file())
        .collect();
    let executable = found.iter().find(|file| is_executable(file));
    executable.or(found.first()).cloned().ok_or_else(|| {
        let name = name.display();
        PagingError::Usage(format!("{name}: no such program: check the spelling, or give its path"))
    })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn check(path: &Path, depth: usize) -> Result<PagerEntry, PagingError> {
    let at = path.display();
    let usage = |why: &str| PagingError::Usage(format!("{at}: {why}"));
    let meta = path.metadata().map_err(|why| usage(&plain(why)))?;
    if !meta.is_file() {
        return Err(usage("is not a file"));
    }
    if !is_executable(path) {
        return Err(usage("is not executable: chmod +x it, or name its interpreter"));
    }
    check_privileges(path, &meta)?;
    let file = File::open(path).map_err(|why| {
        PagingError::Lacking(format!("{at} cannot be checked, since it cannot be read: {}", plain(why)))
    })?;
    let damaged = |why: io::Error| usage(&format!("cannot be run: {why}"));
    match elf::read(&file).map_err(damaged)? {
        Elf::Other => check_script(path, &file, depth),
        Elf::Foreign => {
            Err(lacking(path, "is built for another processor", "use a 64-bit build for this one"))
        }
        elf => enter(path, elf),
    }
}

fn lacking(path: &Path, why: &str, instead: &str) -> PagingError {
    PagingError::Lacking(format!("{} {why}: {instead}", path.display()))
}

fn plain(why: io::Error) -> String {
    match why.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => why.to_string(),
    }
}

/// Returns how the pager gets into a program, if that is possible on this machine.
fn enter(path: &Path, elf: Elf) -> Result<PagerEntry, PagingError> {
    match elf.entrance() {
        Some(PagerEntry::Agent) if cfg!(not(target_arch = "x86_64")) => Err(lacking(
            path,
            "is statically linked or uses the musl C library, so the pager cannot be loaded into it",
            "use a dynamically linked build of it for the GNU C library",
        )),
        Some(entrance) => Ok(entrance),
        None => Err(lacking(path, "is no program of this machine", "use a build for it")),
    }
}

/// Checks that a program does not gain rights, because the loader preloads no library into such a program. Root gains no rights from setuid
/// files.
fn check_privileges(path: &Path, meta: &Metadata) -> Result<(), PagingError> {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mode = meta.mode() & SET_ID;
    let changes_user = mode & 0o4000 != 0 && meta.uid() != user;
    let changes_group = mode & 0o2000 != 0 && meta.gid() != group;
    let gains = user != 0 && rustix::fs::getxattr(path, "security.capability", &mut [0u8; 64]).is_ok();
    match changes_user || changes_group || gains {
        true => Err(lacking(
            path,
            "runs with rights that the caller does not have (setuid, setgid or capabilities), so nothing can \
             be preloaded into it",
            "run it as that user, or use a copy without those rights",
        )),
        false => Ok(()),
    }
}

fn check_script(path: &Path, file: &File, depth: usize) -> Result<PagerEntry, PagingError> {
    let usage = |why: String| PagingError::Usage(format!("{}: {why}", path.display()));
    let mut head = [0u8; 256];
    let len = elf::read_up_to(file, &mut head, 0).map_err(|why| usage(why.to_string()))?;
    let Some(words) = interpreter(&head[..len]) else {
        return Err(usage("is neither a program nor a script that begins with #!".into()));
    };
    if depth == DEEPEST_SCRIPT {
        return Err(usage("its interpreters are scripts, nested too deeply: name a program".into()));
    }
    let of_script = |error| match error {
        PagingError::Usage(why) => usage(format!("its interpreter: {why}")),
        PagingError::Lacking(why) => {
            PagingError::Lacking(format!("{}: its interpreter {why}", path.display()))
        }
        other => other,
    };
    let entrance = check(Path::new(&words[0]), depth + 1).map_err(of_script)?;
    if let Some(name) = behind_env(&words) {
        find(name).and_then(|path| check(&path, depth + 1)).map_err(of_script)?;
    }
    Ok(entrance)
}

/// Returns the words of a `#!` line; `None` if there is no such line.
fn interpreter(head: &[u8]) -> Option<Vec<OsString>> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(|word| OsString::from_vec(word.to_vec())).collect();
    (!words.is_empty()).then_some(words)
}

/// Returns the program that `env` runs: the first word that is neither an option nor a variable assignment.
fn behind_env(words: &[OsString]) -> Option<&OsStr> {
    let is_env = Path::new(&words[0]).file_name() == Some(OsStr::new("env"));
    let is_name = |word: &&OsString| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=');
    words[1..].iter().find(is_name).map(OsString::as_os_str).filter(|_| is_env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn lines_of_scripts_are_read_as_the_kernel_does() {
        assert_eq!(interpreter(b"#! /bin/sh -e\nset -u\n"), Some(words("/bin/sh -e")));
        assert_eq!(interpreter(b"#!/usr/bin/env python3"), Some(words("/usr/bin/env python3")));
        assert_eq!(interpreter(b"#!\n/bin/sh"), None);
        assert_eq!(interpreter(b"echo"), None);
    }

    #[test]
    fn env_is_looked_through() {
        assert_eq!(behind_env(&words("/usr/bin/env -S A=b python3 -u")), Some(OsStr::new("python3")));
        assert_eq!(behind_env(&words("/bin/sh -e x")), None);
        assert_eq!(behind_env(&words("/usr/bin/env")), None);
    }

    #[test]
    fn what_is_no_program_is_bad_usage() {
        let usage = |name: &str, text: &str| match Program::resolve(&[name.into()]) {
            Err(PagingError::Usage(why)) => assert!(why.contains(text), "{why}"),
            other => panic!("{other:?}"),
        };
        let folder = unrack_testing::TestFolder::new("program");
        usage(&format!("no-program-{}", folder.word()), "no such program");
        usage(folder.join("absent").to_str().unwrap(), "no such file");
        usage("/", "not a file");
        usage("", "no such program");
        usage("/proc/self/status", "not executable");
        assert!(matches!(Program::resolve(&[]), Err(PagingError::Usage(_))));
    }

    #[test]
    fn the_shell_is_found_and_fit() {
        let program = Program::resolve(&["sh".into(), "-c".into(), "true".into()]).unwrap();
        assert!(program.path.is_absolute());
        assert_eq!(program.words(), ["sh", "-c", "true"]);
    }
}
