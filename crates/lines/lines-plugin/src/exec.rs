//! `execve` on behalf of the guest: the plugin starts the new program under QEMU and with the same plugin.
//!
//! Without this, QEMU would pass the system call to the kernel, and the new program would run unrecorded. Programs that
//! QEMU cannot run are left to the kernel.

use crate::guest::Memory;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
pub(crate) use unrack_lines_programs::LeftToKernel;
use unrack_lines_programs::{ResolvedProgram, no_option, resolve, split};

/// Number of `execve` on x86-64 Linux.
pub(crate) const EXECVE: i64 = 59;
/// Number of `execveat` on x86-64 Linux.
pub(crate) const EXECVEAT: i64 = 322;

/// Flags of `execveat` (`linux/fcntl.h`).
const AT_EMPTY_PATH: u64 = 0x1000;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
/// Value of `execveat`'s directory descriptor that denotes the working directory.
const AT_FDCWD: i32 = -100;

/// First part of the command line of this QEMU: its path and its options, without the guest's program and arguments.
pub(crate) struct Launcher {
    qemu: CString,
    options: Vec<CString>,
}

/// Returns the path of the program that this QEMU runs. In QEMU's command line, it is the first word after `-plugin`
/// that is neither an option nor the value of an option.
pub(crate) fn own_program() -> Option<String> {
    let line = std::fs::read("/proc/self/cmdline").ok()?;
    let mut words = line.split(|&byte| byte == 0).skip_while(|word| *word != b"-plugin").skip(2);
    loop {
        match words.next()? {
            b"-0" | b"-E" => words.next()?,
            program => return Some(String::from_utf8_lossy(program).into_owned()),
        };
    }
}

/// Request of the guest to execute a file: its path, arguments and environment.
pub(crate) struct Request {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// Arguments of a system call, in the order of the call.
pub(crate) type SyscallArguments = [u64; 5];

impl Launcher {
    /// Reads the command line with which this QEMU was started. The option `-plugin` is always the last of QEMU's
    /// options.
    pub(crate) fn find() -> Option<Launcher> {
        let line = std::fs::read("/proc/self/cmdline").ok()?;
        let qemu = std::fs::read_link("/proc/self/exe").ok()?;
        let words = line.split(|&byte| byte == 0).map(CString::new).collect::<Result<Vec<_>, _>>().ok()?;
        let plugin = words.iter().position(|word| word.as_c_str() == c"-plugin")?;
        let options = words.get(..plugin + 2)?.to_vec();
        Some(Launcher { qemu: CString::new(qemu.into_os_string().into_vec()).ok()?, options })
    }

    /// Replaces this process by a QEMU that runs the new program. Returns only if the replacement fails.
    pub(crate) fn execute(&self, program: ResolvedProgram, environment: Vec<CString>) {
        let (kept, given) = split(environment);
        let mut arguments = self.options.clone();
        arguments.extend(given);
        let mut of_program = program.arguments.into_iter();
        arguments.push(c"-0".into());
        arguments.push(of_program.next().unwrap_or_default());
        arguments.push(no_option(program.path));
        arguments.extend(of_program);
        let (arguments, environment) = (pointers(&arguments), pointers(&kept));
        // SAFETY: the path ends in NUL, both lists end in a null pointer, and their strings outlive the call.
        unsafe { libc::execve(self.qemu.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

impl Request {
    /// Reads the guest's request from the arguments of an `execve` or `execveat`. Returns `None` if a pointer is
    /// invalid or the file has no path. In these cases, the kernel handles the system call.
    pub(crate) fn read(call: i64, arguments: SyscallArguments, binary: &Path) -> Option<Request> {
        let memory = Memory::open()?;
        let (path, rest) = match call {
            EXECVE => (memory.string(arguments[0])?, &arguments[1..3]),
            EXECVEAT => (path_at(&memory, arguments)?, &arguments[2..4]),
            _ => return None,
        };
        let path = own_binary(&path, binary).unwrap_or(path);
        let (arguments, environment) = (memory.strings(rest[0])?, memory.strings(rest[1])?);
        (!arguments.is_empty()).then_some(Request { path, arguments, environment })
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// Finds the program that the kernel would run for this request, for example the interpreter of a script.
    ///
    /// # Errors
    /// The reason why the recorder leaves the request to the kernel.
    pub(crate) fn resolve(self) -> Result<(ResolvedProgram, Vec<CString>), LeftToKernel> {
        Ok((resolve(self.path, self.arguments)?, self.environment))
    }
}

/// Returns the path of the file that an `execveat` selects by its directory descriptor, path and flags.
fn path_at(memory: &Memory, arguments: SyscallArguments) -> Option<CString> {
    let [folder, path, _, _, flags] = arguments;
    let path = memory.string(path)?;
    let folder = folder as i32;
    if flags & AT_SYMLINK_NOFOLLOW != 0 {
        return None;
    }
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return c_string(opened(folder)?);
    }
    if path.as_bytes().starts_with(b"/") || folder == AT_FDCWD {
        return Some(path);
    }
    c_string(opened(folder)?.join(OsStr::from_bytes(path.as_bytes())))
}

/// Returns the path of an open file, or `None` if the file no longer has a path. The path is used instead of the
/// descriptor, because `execve` may close the descriptor.
fn opened(descriptor: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    path.exists().then_some(path)
}

/// Returns the path of the guest's own program if `path` is a link to it (`/proc/self/exe` or `/proc/PID/exe`). The link
/// cannot be followed, because in this process it leads to QEMU. For other paths, returns the result of [`descriptor`].
fn own_binary(path: &CStr, binary: &Path) -> Option<CString> {
    let own = format!("/proc/{}/exe", std::process::id());
    let is_own = path == c"/proc/self/exe" || path.to_bytes() == own.as_bytes();
    if is_own { c_string(binary.to_path_buf()) } else { descriptor(path) }
}

/// Returns the path of the open file that `/proc/self/fd/N` denotes. The `fexecve` of glibc executes a file by such a
/// path.
fn descriptor(path: &CStr) -> Option<CString> {
    let path = path.to_str().ok()?;
    let number = path.strip_prefix("/proc/self/fd/").or_else(|| path.strip_prefix("/dev/fd/"))?;
    c_string(opened(number.parse().ok()?)?)
}

fn c_string(path: PathBuf) -> Option<CString> {
    CString::new(path.into_os_string().into_vec()).ok()
}
