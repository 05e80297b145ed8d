//! Instrumented run of a program: QEMU executes the program, and the plugin records its memory accesses.

use crate::calibrate::Described;
use crate::record::{self, ProcessRecord};
use crate::stop::{self, RunEnd};
use crate::{RunError, Tools, tools};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;
use unrack_lines::placement::PagePlacement;
use unrack_lines::processor::Processor;
use unrack_lines_programs::{LeftToKernel, ResolvedProgram, no_option, resolve, split};
use unrack_record::temporary::TemporaryFolder;

/// Processor that QEMU presents to the program. It has all features that QEMU supports, except fast string
/// instructions, because QEMU executes these byte by byte. Without them, the C library copies by vector instructions.
const PROCESSOR: &str = "max,-erms,-fsrm";

/// Options of an instrumented run. For a number that is `None`, the plugin uses its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Seed for the positions of the recorded windows, and for the random numbers that the program receives from the
    /// kernel.
    pub seed: u64,
    /// Number of instructions between the beginnings of successive windows.
    pub period: Option<u64>,
    /// Number of instructions in a window, excluding its lead.
    pub window: Option<u64>,
    /// Number of instructions in the lead, which is recorded before each window to fill the simulated pipeline.
    pub lead: Option<u64>,
    /// Maximum size of the recording of one process, in bytes. If a recording exceeds it, the recorder drops a part of
    /// the recorded windows.
    pub limit: Option<u64>,
    /// Processor whose caches are simulated. `None` selects the processor of this machine, as given by
    /// [`Described::processor`].
    pub processor: Option<Processor>,
    /// Number of simulated cores, each with private caches. `None` selects the number of cores that this process may
    /// use.
    pub cores: Option<u32>,
    /// Simulated placements of the program's pages, at most 16. `None` selects [`PagePlacement::usual`] without a
    /// footprint.
    pub placements: Option<Vec<PagePlacement>>,
}

impl Options {
    /// Returns the processor whose caches are simulated.
    ///
    /// # Errors
    /// If the options name no processor, and there is no preset for this machine's vendor.
    pub fn processor(&self) -> Result<Processor, RunError> {
        let given = self.processor.clone().or_else(|| Described::this().processor());
        let why =
            || format!("no model of this machine's caches: name one of {}", Processor::names().join(", "));
        given.ok_or_else(|| RunError::Lacking(why()))
    }

    fn caches(&self) -> Result<String, RunError> {
        let cores = self.cores.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_CORES) as u32)
        });
        let usual = || PagePlacement::usual(None);
        let placements = self.placements.clone().unwrap_or_else(usual);
        let placements: Vec<String> = placements.iter().map(|placement| placement.to_string()).collect();
        let processor = self.processor()?;
        Ok(format!(",processor={processor},cores={cores},placements={}", placements.join("+")))
    }
}

/// Maximum number of simulated cores.
const MOST_CORES: usize = 1024;

/// Completed run of a program, with the records of its processes.
#[derive(Debug)]
pub struct InstrumentedRun {
    /// Records of the processes. The record of a process comes after the record of the process that started it.
    pub processes: Vec<ProcessRecord>,
    /// Exit status of the program.
    pub status: ExitStatus,
    /// Whether the run was ended early because its deadline had passed.
    pub was_ended: bool,
    /// Directory that contains the recordings. It is removed when this value is dropped.
    _folder: TemporaryFolder,
}

/// Runs a command under QEMU until it ends. The program inherits the standard input, output and error of this process.
///
/// # Errors
/// If the program cannot be run under QEMU, or its records cannot be read.
pub fn run(tools: &Tools, command: &[OsString], options: &Options) -> Result<InstrumentedRun, RunError> {
    prepare(tools, command, options)?.run(None, &|| false)
}

/// Command of an instrumented run that is ready to start.
#[derive(Debug)]
pub struct PreparedCommand {
    command: Command,
    folder: TemporaryFolder,
}

/// Prepares an instrumented run of a command. Afterwards, the caller may still change the environment and the standard
/// input, output and error of the command.
///
/// # Errors
/// If the program cannot be run under QEMU, no processor is known, or the directory for its records cannot be
/// created.
pub fn prepare(tools: &Tools, command: &[OsString], options: &Options) -> Result<PreparedCommand, RunError> {
    let program = program(command)?;
    let folder = TemporaryFolder::within(&std::env::temp_dir())
        .map_err(RunError::failed("create a folder for the records"))?;
    let environment = std::env::vars_os().map(|(name, value)| variable(name, value)).collect();
    let (kept, given) = split(environment);
    let mut command = Command::new(&tools.qemu);
    command.args(["-cpu", PROCESSOR, "-seed"]).arg(options.seed.to_string());
    command.arg("-plugin").arg(plugin(tools, folder.whole(), options)?);
    command.args(given.iter().map(words)).arg("-0");
    command.args(program.arguments.first().map(words)).arg(words(&no_option(program.path)));
    command.args(program.arguments.iter().skip(1).map(words));
    command.env_clear().envs(kept.iter().filter_map(|variable| named(words(variable))));
    prepare_process(&mut command);
    Ok(PreparedCommand { command, folder })
}

impl PreparedCommand {
    /// Returns the command, so that its standard input, output and error or its working directory can be set.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs the command until it ends. At the deadline, or when `is_stopped` returns `true`, the command and all
    /// processes that it started are ended early. At a deadline, the records may be up to one second old. If this
    /// process is killed, the kernel kills the first process of the command.
    ///
    /// # Errors
    /// If the command cannot be started, or its records cannot be read; [`RunError::Stopped`] if `is_stopped`
    /// returned `true`.
    pub fn run(
        mut self,
        deadline: Option<Instant>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<InstrumentedRun, RunError> {
        let mark = mark(self.folder.whole());
        let ended =
            self.command.spawn().and_then(|mut child| stop::wait(&mut child, deadline, is_stopped, &mark));
        let (status, ended) = ended.map_err(RunError::failed("run qemu-x86_64"))?;
        if ended == RunEnd::Stopped {
            return Err(RunError::Stopped);
        }
        let processes = record::read(self.folder.whole())?;
        if processes.is_empty() {
            let why = "QEMU ended before the program began; its message is on standard error";
            return Err(RunError::Lacking(why.into()));
        }
        let was_ended = ended == RunEnd::Deadline;
        Ok(InstrumentedRun { processes, status, was_ended, _folder: self.folder })
    }
}

/// Locates the program file of a command.
fn program(command: &[OsString]) -> Result<ResolvedProgram, RunError> {
    let name = command.first().ok_or_else(|| RunError::Lacking("no command was given".into()))?;
    let refused = |why: &str| RunError::Program { path: name.into(), why: why.into() };
    let path = match name.as_bytes().contains(&b'/') {
        true => PathBuf::from(name),
        false => tools::in_path(name).ok_or_else(|| refused("no such program in PATH"))?,
    };
    let string = |word: &OsStr| CString::new(word.as_bytes());
    let arguments: Result<Vec<CString>, _> = command.iter().map(|word| string(word)).collect();
    let (Ok(path), Ok(arguments)) = (string(path.as_os_str()), arguments) else {
        return Err(refused("a word of the command contains NUL"));
    };
    resolve(path, arguments).map_err(|left| {
        refused(match left {
            LeftToKernel::Refused => "there is no such program, or it cannot be executed",
            LeftToKernel::Unreadable => "the program cannot be read: ask for the permission to read its file",
            LeftToKernel::Privileged => {
                "the program is setuid, setgid or has capabilities: run it as the user it becomes"
            }
            LeftToKernel::Foreign => {
                "this is no program for x86-64 Linux: name its interpreter if it is a script"
            }
        })
    })
}

/// Returns the value of QEMU's option `-plugin`. In this value, each comma of a path is doubled.
fn plugin(tools: &Tools, folder: &Path, options: &Options) -> Result<OsString, RunError> {
    let mut value = escaped(&tools.plugin);
    value.extend(mark(folder));
    value.extend(format!(",seed={}", options.seed).bytes());
    value.extend(options.caches()?.bytes());
    let numbers = [
        ("period", options.period),
        ("window", options.window),
        ("lead", options.lead),
        ("limit", options.limit),
    ];
    for (name, number) in numbers.iter().filter_map(|(name, number)| Some((name, (*number)?))) {
        value.extend(format!(",{name}={number}").bytes());
    }
    Ok(OsString::from_vec(value))
}

/// Returns the part of QEMU's command line that identifies the processes whose records go to this directory.
fn mark(folder: &Path) -> Vec<u8> {
    [b",out=".as_slice(), &escaped(folder)].concat()
}

fn escaped(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().iter().flat_map(escape).collect()
}

fn escape(byte: &u8) -> impl Iterator<Item = u8> + use<> {
    std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 })
}

/// Prepares the process that will execute QEMU. Disables the randomization of addresses (`personality(2)`), so that two
/// runs behave identically, and asks the kernel to kill the process when this process is killed.
#[allow(unsafe_code)]
fn prepare_process(command: &mut Command) {
    const ADDR_NO_RANDOMIZE: libc::c_ulong = 0x004_0000;
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs between `fork` and `exec`, and only makes system calls, which do not access memory.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            match libc::personality(ADDR_NO_RANDOMIZE) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
}

fn words(string: &CString) -> &OsStr {
    OsStr::from_bytes(string.as_bytes())
}

fn variable(name: OsString, value: OsString) -> CString {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes).expect("the environment is made of strings without NUL")
}

fn named(variable: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let equals = variable.as_bytes().iter().skip(1).position(|&byte| byte == b'=')? + 1;
    let (name, value) = variable.as_bytes().split_at(equals);
    Some((OsStr::from_bytes(name), OsStr::from_bytes(&value[1..])))
}
