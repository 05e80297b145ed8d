//! Comparison of hardware and software, cycle by cycle. `make rtl` builds simulations of `rtl/` and sets `UNRACK_RTL`
//! to the common prefix of their paths. Without it, nothing is compared.

mod line;
mod pim;
mod rack;

use std::io::Write;
use std::process::{Command, Stdio};
use unrack_testing::{TestRequirement, skip};

/// Returns the path of this simulation, or `None` if hardware is not to be compared.
fn program(name: &str) -> Option<String> {
    let prefix = std::env::var("UNRACK_RTL");
    if prefix.is_err() {
        skip(TestRequirement::Rtl, "UNRACK_RTL does not say where the simulated hardware is (make rtl)");
    }
    prefix.ok().map(|prefix| format!("{prefix}-{name}"))
}

/// Returns the number of cycles of a run. Each test makes several runs.
fn cycles() -> u64 {
    std::env::var("UNRACK_RTL_CYCLES").map_or(20_000, |text| text.parse().expect("a number of cycles"))
}

/// Runs a simulation on this input, and returns its output.
fn run(program: &str, input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("built by `make rtl`");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout
}
