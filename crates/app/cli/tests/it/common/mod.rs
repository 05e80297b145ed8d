//! Lab for tests of the `unrack` that was built with them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use unrack_paging::FaultMode;
use unrack_testing::{TestFolder, TestRequirement};

/// Seconds after which a hanging run is ended. No run here takes that long, even where other work leaves it a tenth of a core: a
/// calibration takes a quarter of a minute alone.
pub(crate) const LONGEST_S: &str = "600";

pub(crate) struct Lab {
    folder: TestFolder,
}

impl Lab {
    /// Makes a lab with a folder of its own, also for caches and temporary files.
    pub(crate) fn new(name: &str) -> Lab {
        let preload = Path::new(env!("CARGO_BIN_EXE_unrack")).with_file_name("libunrack_preload.so");
        assert!(
            preload.is_file(),
            "{} is missing: test with `cargo test --workspace`, or first `cargo build -p unrack-preload` with \
             the same profile",
            preload.display()
        );
        let folder = TestFolder::new(name);
        std::fs::create_dir(folder.join("tmp")).unwrap();
        Lab { folder }
    }

    /// Makes a lab for runs that page; `None`, with a message, where the kernel does not allow that.
    pub(crate) fn paging(name: &str) -> Option<Lab> {
        Lab::of_mode(name, FaultMode::Blocking)
    }

    /// Makes a lab for fast mode; `None`, with a message, where the kernel does not allow that.
    pub(crate) fn fast(name: &str) -> Option<Lab> {
        Lab::of_mode(name, FaultMode::Fast)
    }

    fn of_mode(name: &str, mode: FaultMode) -> Option<Lab> {
        match mode.check() {
            Ok(()) => Some(Lab::new(name)),
            Err(why) => {
                unrack_testing::skip(TestRequirement::Userfaultfd, why);
                None
            }
        }
    }

    /// Returns a word that names nothing on this machine.
    pub(crate) fn word(&self) -> String {
        self.folder.word()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn command(&self, arguments: &[&dyn AsRef<OsStr>]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "-k", "5", LONGEST_S, env!("CARGO_BIN_EXE_unrack")]);
        command.args(arguments.iter().map(|argument| argument.as_ref()));
        command.env("XDG_CACHE_HOME", self.path("cache")).env("TMPDIR", self.path("tmp"));
        command.env_remove("LD_PRELOAD").env_remove("UNRACK_PRELOAD");
        if let Some(path) = path_with_python() {
            command.env("PATH", path);
        }
        command
    }

    pub(crate) fn unrack(&self, arguments: &[&dyn AsRef<OsStr>]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Makes a stand-in for `/proc`, from which the machine's load is read: two cores on which `others` other tasks
    /// run. Tests must not depend on other work of this machine.
    pub(crate) fn proc(&self, others: u32) -> PathBuf {
        let proc = self.path("proc");
        std::fs::create_dir_all(proc.join("self")).unwrap();
        let stat = "cpu0 1 0 1 9 0 0 0 0 0 0\ncpu1 1 0 1 9 0 0 0 0 0 0\n";
        std::fs::write(proc.join("stat"), stat).unwrap();
        std::fs::write(proc.join("loadavg"), format!("0.00 0.00 0.00 {}/99 7\n", others + 1)).unwrap();
        proc
    }

    /// Runs `unrack run --json`, and returns its output and the JSON.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> (Output, serde_json::Value) {
        let json = self.path("run.json");
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"run", &"--json", &json];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        arguments.push(&"--");
        arguments.extend(command.iter().map(|word| word as &dyn AsRef<OsStr>));
        let output = self.command(&arguments).env("UNRACK_PROC", self.proc(0)).output().unwrap();
        let text = std::fs::read(&json).unwrap_or_else(|_| panic!("no summary: {}", stderr(&output)));
        (output, serde_json::from_slice(&text).unwrap())
    }
}

/// Returns a `PATH` whose first `python3` is the interpreter itself: what version managers put there is a script, whose tens of
/// processes a test would page and count, too. `None` without Python.
fn path_with_python() -> Option<&'static OsStr> {
    static PATH: OnceLock<Option<OsString>> = OnceLock::new();
    let find = || {
        let asked =
            Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        let interpreter = String::from_utf8(asked.stdout).ok().filter(|path| path.starts_with('/'))?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        std::fs::create_dir_all(&folder).ok()?;
        let aside = folder.join(std::process::id().to_string());
        std::os::unix::fs::symlink(interpreter.trim_end(), &aside).ok()?;
        std::fs::rename(&aside, folder.join("python3")).ok()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).ok()
    };
    PATH.get_or_init(find).as_deref()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Builds a C program; all machines that build Unrack have a C compiler, for its linker.
pub(crate) fn compile(source: &str, at: &Path, options: &[&str]) {
    let built = try_compile("cc", source, at, options).unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
}

/// Builds a C program with a compiler that may be absent.
pub(crate) fn try_compile(
    compiler: &str,
    source: &str,
    at: &Path,
    options: &[&str],
) -> std::io::Result<Output> {
    let text = at.with_extension("c");
    std::fs::write(&text, source).unwrap();
    Command::new(compiler).args(options).arg("-o").arg(at).arg(&text).output()
}

/// Returns the folders of runs by process `pid`, in all places where they may be.
pub(crate) fn run_folders(pid: u32, temporary: &Path) -> Vec<PathBuf> {
    let of_run = format!("unrack-{pid}-");
    let entries = [Path::new("/dev/shm"), temporary].into_iter().flat_map(std::fs::read_dir).flatten();
    let paths = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_run));
    paths.map(|entry| entry.path()).collect()
}

/// Returns the children of a process with one thread.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Waits until `is_so` returns true, and fails after a minute.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command and all its descendants, told from other processes by their working folder: reading their memory, such as
/// their environment, could take a page that is remote.
pub(crate) struct Marked(PathBuf);

impl Marked {
    pub(crate) fn new(lab: &Lab) -> Marked {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = lab.path(&format!("run-{}", NEXT.fetch_add(1, Relaxed)));
        std::fs::create_dir(&folder).unwrap();
        Marked(folder.canonicalize().unwrap())
    }

    pub(crate) fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(&self.0)
    }

    /// Returns the processes that run, each by its number and name.
    pub(crate) fn left(&self) -> Vec<String> {
        self.processes().into_iter().map(|pid| format!("{pid} {}", name_of(pid))).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<u32> {
        self.processes().into_iter().filter(|pid| name_of(*pid) == name).collect()
    }

    fn processes(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        // A process that has ended has no working folder.
        let folder_of = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd"));
        pids.filter(|pid| folder_of(pid).is_ok_and(|folder| folder == self.0)).collect()
    }
}

fn name_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().into()
}

impl Drop for Marked {
    /// Ends the processes, so that a failed test leaves nothing either.
    fn drop(&mut self) {
        let pids: Vec<String> = self.processes().iter().map(u32::to_string).collect();
        if !pids.is_empty() {
            let _ = Command::new("kill").arg("-9").args(pids).status();
        }
    }
}
