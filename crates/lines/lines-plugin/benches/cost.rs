//! Benchmark of the recorder: run time of a recorded program, compared with its native run and with QEMU without the
//! plugin.
//!
//! Run it with `cargo build --release -p unrack-lines-plugin -p unrack-lines-kernels && cargo bench -p
//! unrack-lines-plugin`. For each kernel and each way to run it, the benchmark prints the minimum of several passes in
//! seconds, the nanoseconds per instruction, and the slowdown relative to the native run. The times include the start
//! of QEMU.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use unrack_lines_run::{Options, Tools, prepare};

/// Names of the measured kernels. Their speed is limited by memory, computation, branches or vector instructions.
const KERNELS: &[&str] = &["chase", "matmul", "sort", "triad", "string-search"];
const PASSES: usize = 3;

fn main() {
    let folder = std::env::current_exe().expect("a path").ancestors().nth(2).expect("a folder").to_path_buf();
    let (plugin, kernels) = (folder.join("libunrack_lines.so"), folder.join("unrack-lines-kernels"));
    let is_test = std::env::args().any(|word| word == "--test");
    if !plugin.is_file() || !kernels.is_file() {
        return println!("not measured: build {} and {} first", plugin.display(), kernels.display());
    }
    let tools = match Tools::with_plugin(plugin) {
        Ok(tools) => tools,
        Err(why) => return println!("not measured: {why}"),
    };
    let (kernels_run, passes) = if is_test { (&KERNELS[..1], 1) } else { (KERNELS, PASSES) };
    println!(
        "{:>10}{:>12}{:>10}{:>10}{:>10}{:>8}{:>10}{:>8}",
        "kernel", "million", "native", "QEMU", "recorded", "ns", "QEMU x", "x"
    );
    for name in kernels_run {
        let command: Vec<OsString> = vec![kernels.clone().into(), name.into(), "cache".into()];
        let native = least(passes, || time(&mut plain(&kernels, &command[1..])));
        let qemu = PathBuf::from("qemu-x86_64");
        let emulated = least(passes, || time(plain(&qemu, &["-cpu".into(), "max".into()]).args(&command)));
        let mut instructions = 0;
        let recorded = least(passes, || {
            let mut prepared =
                prepare(&tools, &command, &Options::default()).expect("a program of this machine");
            prepared.command().stdout(Stdio::null());
            let start = Instant::now();
            let run = prepared.run(None, &|| false).expect("a record");
            let seconds = start.elapsed().as_secs_f64();
            instructions = run.processes[0].summary.threads.iter().map(|thread| thread.instructions).sum();
            seconds
        });
        println!(
            "{name:>10}{:>12.0}{native:>10.3}{emulated:>10.3}{recorded:>10.3}{:>8.2}{:>10.1}{:>8.1}",
            instructions as f64 / 1e6,
            recorded * 1e9 / instructions as f64,
            emulated / native,
            recorded / native
        );
    }
}

fn plain(program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null());
    command
}

fn time(command: &mut Command) -> f64 {
    let start = Instant::now();
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    start.elapsed().as_secs_f64()
}

fn least(passes: usize, pass: impl FnMut() -> f64) -> f64 {
    std::iter::repeat_with(pass).take(passes).fold(f64::INFINITY, f64::min)
}
