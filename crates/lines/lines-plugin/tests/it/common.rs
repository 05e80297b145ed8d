//! Tools of these tests: programs in C, and their runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use unrack_lines_run::{InstrumentedRun, Options, ProcessRecord, RunError, Tools, prepare};
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Returns QEMU and the plugin that cargo has built for this test, or skips the test.
pub(crate) fn tools() -> Option<Tools> {
    let executable = std::env::current_exe().unwrap();
    let built = executable.ancestors().nth(2).unwrap().join("libunrack_lines.so");
    assert!(built.is_file(), "{}: build it first, with cargo build -p unrack-lines-plugin", built.display());
    match Tools::with_plugin(built) {
        Ok(tools) => Some(tools),
        Err(RunError::Lacking(why)) => {
            skip(TestRequirement::Qemu, why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Compiles a program.
pub(crate) fn compiled(folder: &TestFolder, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc").arg("-o").arg(&program).arg(&file).args(options).status().unwrap();
    assert!(status.success(), "{name}");
    program
}

pub(crate) fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Run of a program whose standard output and error were kept.
pub(crate) struct Kept {
    pub(crate) run: InstrumentedRun,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command under QEMU, in a folder, without input.
pub(crate) fn recorded(tools: &Tools, command: &[OsString], options: &Options, folder: &Path) -> Kept {
    let mut prepared = prepare(tools, command, options).unwrap();
    let kept = TestFolder::new("kept");
    let [out, err] = ["out", "err"].map(|name| kept.join(name));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    prepared.command().stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err)).current_dir(folder);
    let run = prepared.run(None, &|| false).unwrap();
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    Kept { run, out: text(&out), err: text(&err) }
}

/// Runs a command as it is.
pub(crate) fn native(command: &[OsString], folder: &Path) -> Output {
    let mut native = Command::new(&command[0]);
    native.args(&command[1..]).stdin(Stdio::null()).current_dir(folder).output().unwrap()
}

/// Returns the sum of a count over the threads of a process.
pub(crate) fn total(process: &ProcessRecord, count: fn(&unrack_lines::summary::ThreadSummary) -> u64) -> u64 {
    process.summary.threads.iter().map(count).sum()
}
