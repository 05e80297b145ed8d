//! What the manual pages say of stream sockets, case by case: once by the kernel alone and once below the library, with equal
//! results. The cases are in `tests/programs/conformance.c`.

use crate::common::{Rack, output_of, without_wakeups};
use std::path::{Path, PathBuf};
use std::process::Command;
use unrack_testing::TestFolder;

/// Cases that are left out, since they differ, and why.
const LEFT: &[(&str, &str)] = &[(
    "unix urgent",
    "a read of bytes by the ring goes on behind an urgent byte in the kernel that was received",
)];

#[test]
fn each_case_of_the_manual_pages_has_the_kernels_results() {
    let folder = TestFolder::new("sockets-conformance");
    let program = compile(&folder, "conformance");
    compare(&program, "sockets-conforming", |command| command);
    compare(&program, "sockets-conforming-without-wakeups", without_wakeups);
}

/// Compares a run by the kernel with one below the library.
fn compare(program: &Path, name: &str, limit: impl Fn(Command) -> Command) {
    let rack = Rack::new(name, 1024);
    let mut below = Command::new(program);
    rack.preload(&mut below);
    let mut kernels = Command::new(program);
    for command in [&mut kernels, &mut below] {
        command.arg("without").args(LEFT.iter().map(|(name, _)| name));
    }
    let (kernels, below) = (limit(kernels), limit(below));
    let (found, kernels) = std::thread::scope(|scope| {
        let kernels = scope.spawn(|| lines(kernels));
        (lines(below), kernels.join().expect("the kernel's results"))
    });
    assert_eq!(kernels.len(), found.len(), "as many cases");
    assert!(
        kernels.len() > 280 && rack.carried() > 280,
        "{} cases, {} carried",
        kernels.len(),
        rack.carried()
    );
    let differs: Vec<String> = kernels
        .iter()
        .zip(&found)
        .filter(|(kernels, found)| kernels != found)
        .map(|(kernels, found)| format!("kernel {kernels}\n found {found}"))
        .collect();
    assert!(differs.is_empty(), "{}", differs.join("\n"));
}

/// Runs the program, and returns its lines in the order of their names.
fn lines(command: Command) -> Vec<String> {
    let mut lines: Vec<String> = output_of(command).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Compiles `tests/programs/NAME.c`.
pub(crate) fn compile(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let program = folder.join(name);
    let mut command = Command::new("gcc");
    // Cases pass wrong pointers and sizes, of which the compiler warns.
    command.args(["-std=gnu11", "-O1", "-w", "-pthread", "-o"]).arg(&program).arg(source);
    output_of(command);
    program
}
