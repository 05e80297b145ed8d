//! A program in C calls a service in C: compiled against the header, linked with the library, run beside a manager.

use std::path::{Path, PathBuf};
use std::process::Command;
use unrack_pool::cache_control::Mode;
use unrack_pool::{Manager, manager};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("unrack-rpc-c-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder for a test");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

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
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .arg("-lunrack_rpc"),
    );
    program
}

#[test]
fn a_program_in_c_calls_and_serves() {
    let folder = Folder::new("calls");
    let program = compile(&folder.0, "calls");
    let flushes = unrack_pool::cache_control::Incoherent::detect().is_ok();
    let incoherent = flushes.then_some(Mode::Incoherent);
    for mode in [Mode::Coherent, Mode::Model].into_iter().chain(incoherent) {
        let pool = folder.0.join(mode.to_string());
        let mut options = manager::Options::new(&pool, "64MiB".parse().expect("a size"));
        options.mode = mode;
        let _manager = Manager::start(&options).expect("a manager starts");
        let text = output(Command::new("timeout").arg("60").arg(&program).arg(pool));
        assert!(text.ends_with("all is well\n"), "{mode}: {text}");
    }
}
