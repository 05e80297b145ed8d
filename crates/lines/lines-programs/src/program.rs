//! Determines how the Linux kernel would execute a file, and whether QEMU can run the same program.

use rustix::fs::{Access, AtFlags, CWD, accessat, getxattr};
use rustix::process::geteuid;
use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Maximum number of nested scripts, each of which is the interpreter of the previous one. It is the limit of the Linux
/// kernel (`exec_binprm`).
const DEEPEST: usize = 5;
/// Maximum number of bytes of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const LINE: usize = 256;

/// Program that QEMU can run, with the arguments that the kernel would pass to it.
#[derive(Debug, PartialEq, Eq)]
pub struct ResolvedProgram {
    /// Path of the executable file. If the original file is a script, this is the path of the script's interpreter.
    pub path: CString,
    /// Arguments, beginning with the program's name.
    pub arguments: Vec<CString>,
}

/// Reason why the kernel has to execute a program without QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftToKernel {
    /// The kernel will refuse to execute the file.
    Refused,
    /// The process may execute the file but not read it.
    Unreadable,
    /// The program obtains privileges from its file (setuid, setgid or capabilities), which QEMU cannot grant.
    Privileged,
    /// The file is a program for another processor, or not a program.
    Foreign,
}

impl LeftToKernel {
    /// Returns the reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            LeftToKernel::Refused => "it cannot be executed",
            LeftToKernel::Unreadable => "its file cannot be read",
            LeftToKernel::Privileged => "it is setuid, setgid or has capabilities",
            LeftToKernel::Foreign => "it is no x86-64 program",
        }
    }
}

/// Finds the program that the kernel would run for the file `path`. If the file is a script, this program is the
/// script's interpreter.
///
/// # Errors
/// The reason why QEMU cannot run the file.
pub fn resolve(path: CString, arguments: Vec<CString>) -> Result<ResolvedProgram, LeftToKernel> {
    let mut program = ResolvedProgram { path, arguments };
    for _ in 0..=DEEPEST {
        let file = open(Path::new(OsStr::from_bytes(program.path.as_bytes())))?;
        let mut beginning = [0; LINE];
        let count = file.read_at(&mut beginning, 0).map_err(|_| LeftToKernel::Unreadable)?;
        let beginning = &beginning[..count];
        match beginning.strip_prefix(b"#!") {
            Some(line) => program = interpreted(line, program).ok_or(LeftToKernel::Foreign)?,
            None if is_elf(beginning) && has_interpreter(&file, beginning) => return Ok(program),
            None => return Err(LeftToKernel::Foreign),
        }
    }
    Err(LeftToKernel::Foreign)
}

/// Returns the path of a program in a form that QEMU does not parse as an option: if the path begins with `-`, the
/// function prepends `./`.
pub fn no_option(path: CString) -> CString {
    if !path.as_bytes().starts_with(b"-") {
        return path;
    }
    CString::new([b"./", path.as_bytes()].concat()).unwrap_or_default()
}

fn open(path: &Path) -> Result<File, LeftToKernel> {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).map_err(|_| LeftToKernel::Refused)?;
    // Opening a pipe would block until another process opens its other end.
    let metadata = path.metadata().map_err(|_| LeftToKernel::Refused)?;
    if !metadata.is_file() {
        return Err(LeftToKernel::Refused);
    }
    if is_privileged(path, &metadata) {
        return Err(LeftToKernel::Privileged);
    }
    File::open(path).map_err(|_| LeftToKernel::Unreadable)
}

fn is_privileged(path: &Path, metadata: &Metadata) -> bool {
    let is_setuid = metadata.mode() & 0o4000 != 0 && metadata.uid() != geteuid().as_raw();
    let is_setgid = metadata.mode() & 0o2010 == 0o2010;
    let mut capabilities = [0; 64];
    let has_capabilities =
        getxattr(path, c"security.capability", &mut capabilities).is_ok_and(|count| count > 0);
    is_setuid || is_setgid || has_capabilities && !geteuid().is_root()
}

/// Returns the interpreter that the first line of a script names. Its arguments are the rest of the line as one
/// argument, the path of the script, and the arguments of the script (`load_script` in Linux's fs/binfmt_script.c).
fn interpreted(line: &[u8], script: ResolvedProgram) -> Option<ResolvedProgram> {
    let line = line.split(|&byte| byte == b'\n' || byte == 0).next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let (path, rest) = line.split_at(end);
    let path = CString::new(path).ok().filter(|path| !path.is_empty())?;
    let mut arguments = vec![path.clone()];
    let rest = rest.trim_ascii();
    if !rest.is_empty() {
        arguments.push(CString::new(rest).ok()?);
    }
    arguments.push(script.path);
    arguments.extend(script.arguments.into_iter().skip(1));
    Some(ResolvedProgram { path, arguments })
}

/// Returns whether a file begins with the header of a 64-bit executable or position-independent program for x86-64.
fn is_elf(beginning: &[u8]) -> bool {
    const X86_64: [u8; 2] = 62u16.to_le_bytes();
    beginning.len() >= 64
        && beginning.starts_with(b"\x7fELF\x02\x01")
        && matches!(beginning[16..18], [2 | 3, 0])
        && beginning[18..20] == X86_64
}

/// Returns whether the dynamic loader that an ELF file names exists. It also returns true if the file names no dynamic
/// loader.
fn has_interpreter(file: &File, header: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    let (start, size, count) = (number(&header[32..40]), number(&header[54..56]), number(&header[56..58]));
    for index in 0..count {
        let mut entry = [0; 56];
        let at = start.saturating_add(index * size);
        if file.read_exact_at(&mut entry, at).is_err() {
            return false;
        }
        if number(&entry[..4]) == u64::from(INTERPRETER) {
            let (offset, length) = (number(&entry[8..16]), number(&entry[32..40]).min(4096) as usize);
            let mut name = vec![0; length];
            let is_read = file.read_exact_at(&mut name, offset).is_ok();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            return is_read && Path::new(OsStr::from_bytes(name)).exists();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use unrack_testing::TestFolder;

    fn file(folder: &TestFolder, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn words(words: &[&str]) -> Vec<CString> {
        words.iter().map(|word| CString::new(*word).unwrap()).collect()
    }

    fn resolved(path: &Path, arguments: &[&str]) -> Result<ResolvedProgram, LeftToKernel> {
        resolve(CString::new(path.as_os_str().as_bytes()).unwrap(), words(arguments))
    }

    #[test]
    fn a_program_keeps_its_arguments() {
        let own = std::env::current_exe().unwrap();
        let program = resolved(&own, &["name", "a", ""]).unwrap();
        assert_eq!(program.path.as_bytes(), own.as_os_str().as_bytes());
        assert_eq!(program.arguments, words(&["name", "a", ""]));
    }

    #[test]
    fn scripts_are_followed_to_their_interpreters() {
        let folder = TestFolder::new("scripts");
        let own = std::env::current_exe().unwrap();
        let own = own.to_str().unwrap();
        let line = format!("#! {own}  -e two words \nrest");
        let script = file(&folder, "script", line.as_bytes(), 0o755);
        let name = script.to_str().unwrap();
        let program = resolved(&script, &["called", "x"]).unwrap();
        assert_eq!(program.arguments, words(&[own, "-e two words", name, "x"]));

        let outer = file(&folder, "outer", format!("#!{name}\n").as_bytes(), 0o755);
        let program = resolved(&outer, &["called", "x"]).unwrap();
        assert_eq!(program.path, CString::new(own).unwrap());
        assert_eq!(program.arguments, words(&[own, "-e two words", name, outer.to_str().unwrap(), "x"]));
    }

    #[test]
    fn what_qemu_cannot_run_is_left() {
        let folder = TestFolder::new("left");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut foreign = own[..4096].to_vec();
        foreign[18] = 183;
        let itself = folder.join("itself");
        let circle = file(&folder, "itself", format!("#!{}\n", itself.display()).as_bytes(), 0o755);
        let cases = [
            (file(&folder, "foreign", &foreign, 0o755), LeftToKernel::Foreign),
            (file(&folder, "text", b"echo hello\n", 0o755), LeftToKernel::Foreign),
            (file(&folder, "empty", b"", 0o755), LeftToKernel::Foreign),
            (file(&folder, "bare", b"#!\n", 0o755), LeftToKernel::Foreign),
            (file(&folder, "not-executable", &own[..4096], 0o644), LeftToKernel::Refused),
            (file(&folder, "cut", &own[..64], 0o755), LeftToKernel::Foreign),
            (circle, LeftToKernel::Foreign),
            (folder.to_path_buf(), LeftToKernel::Refused),
            (folder.join("absent"), LeftToKernel::Refused),
        ];
        for (path, left) in cases {
            assert_eq!(resolved(&path, &["x"]), Err(left), "{}", path.display());
        }
    }

    #[test]
    fn programs_that_get_the_rights_of_a_group_are_left() {
        let folder = TestFolder::new("setgid");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = file(&folder, "setgid", &own[..4096], 0o2755);
        assert_eq!(resolved(&path, &["x"]), Err(LeftToKernel::Privileged));
    }
}
