//! Programs in C call a service in C, and lend buffers: compiled against the header, linked with the library, run beside a manager.

use std::path::{Path, PathBuf};
use std::process::Command;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::{Manager, manager};
use unrack_testing::{TestFolder, TestRequirement, skip};

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Compiles `tests/programs/NAME.c`. The library is where `cargo build` leaves it.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = std::env::current_exe().expect("this test");
    let libraries = test.ancestors().nth(2).expect("a folder above that of tests");
    assert!(
        libraries.join("libunrack_rpc.so").exists(),
        "the library is not built: cargo build -p unrack-rpc-c, with the profile of this test"
    );
    // Programs look for the library by its soname, which an installation has and a build has not.
    let installed = folder.join("libunrack_rpc.so.0");
    std::os::unix::fs::symlink(libraries.join("libunrack_rpc.so"), installed).expect("a new link");
    let program = folder.join(name);
    output(
        Command::new("gcc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&program)
            .arg(here.join("tests/programs").join(name).with_extension("c"))
            .arg("-I")
            .arg(here.join("include"))
            .arg("-L")
            .arg(libraries)
            .arg(format!("-Wl,-rpath,{}", folder.display()))
            .arg("-lunrack_rpc"),
    );
    program
}

#[test]
fn a_program_in_c_calls_and_serves() {
    in_all_kinds_of_memory("calls");
}

#[test]
fn a_program_in_c_lends_buffers() {
    in_all_kinds_of_memory("lends");
}

fn in_all_kinds_of_memory(name: &str) {
    let folder = TestFolder::new(name);
    let program = compile(&folder, name);
    let flushes = unrack_pool::cache_control::Incoherent::detect();
    if let Err(why) = &flushes {
        skip(TestRequirement::Flush, why);
    }
    let incoherent = flushes.is_ok().then_some(MemoryKind::Incoherent);
    for mode in [MemoryKind::Coherent, MemoryKind::Model].into_iter().chain(incoherent) {
        let pool = folder.join(mode.to_string());
        let mut options = manager::Options::new(&pool, "64MiB".parse().expect("a size"));
        options.mode = mode;
        // A client and a service in one process.
        options.per_client = Some("100%".parse().expect("a share"));
        let _manager = Manager::start(&options).expect("a manager starts");
        let text = output(Command::new("timeout").arg("60").arg(&program).arg(pool));
        assert!(text.ends_with("all is well\n"), "{mode}: {text}");
    }
}
