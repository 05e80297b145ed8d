//! Runs the `unrack` that was built with these tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

/// No run here takes seconds; one that hangs ends after this many.
const LONGEST_S: &str = "60";

pub struct Lab {
    folder: PathBuf,
}

impl Lab {
    /// A folder of its own for each test, also for caches and temporary files.
    pub fn new(name: &str) -> Lab {
        let preload = Path::new(env!("CARGO_BIN_EXE_unrack")).with_file_name("libunrack_preload.so");
        assert!(
            preload.is_file(),
            "{} is missing: test with `cargo test --workspace`, or first `cargo build -p unrack-preload` with \
             the same profile",
            preload.display()
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let folder = std::env::temp_dir().join(format!("unrack-test-{name}-{}-{now}", std::process::id()));
        std::fs::create_dir_all(folder.join("tmp")).unwrap();
        Lab { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn command(&self, arguments: &[&dyn AsRef<OsStr>]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "-k", "5", LONGEST_S, env!("CARGO_BIN_EXE_unrack")]);
        command.args(arguments.iter().map(|argument| argument.as_ref()));
        command.env("XDG_CACHE_HOME", self.path("cache")).env("TMPDIR", self.path("tmp"));
        command.env_remove("LD_PRELOAD").env_remove("UNRACK_PRELOAD");
        command
    }

    pub fn unrack(&self, arguments: &[&dyn AsRef<OsStr>]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `unrack run --json`, and what it wrote there.
    pub fn run(&self, options: &[&str], command: &[&str]) -> (Output, serde_json::Value) {
        let json = self.path("run.json");
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"run", &"--json", &json];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        arguments.push(&"--");
        arguments.extend(command.iter().map(|word| word as &dyn AsRef<OsStr>));
        let output = self.unrack(&arguments);
        let text = std::fs::read(&json).unwrap_or_else(|_| panic!("no summary: {}", stderr(&output)));
        (output, serde_json::from_slice(&text).unwrap())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Builds a C program; all machines that build Unrack have a C compiler for its linker.
pub fn compile(source: &str, at: &Path, options: &[&str]) {
    let text = at.with_extension("c");
    std::fs::write(&text, source).unwrap();
    let built = Command::new("cc").args(options).arg("-o").arg(at).arg(&text).output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
}

/// Folders of runs by process `pid`, wherever they may be.
pub fn run_folders(pid: u32, temporary: &Path) -> Vec<PathBuf> {
    let of_run = format!("unrack-{pid}-");
    let entries = [Path::new("/dev/shm"), temporary].into_iter().flat_map(std::fs::read_dir).flatten();
    let paths = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_run));
    paths.map(|entry| entry.path()).collect()
}
