//! Refusals: work that cannot be done is refused before anything starts, and the exit status says whose fault it is.

use crate::common;

use common::{Lab, compile, stderr};

const LOCAL: &str = "--local=1MiB";

fn refused(lab: &Lab, command: &[&str], status: i32, text: &str) {
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"run", &LOCAL, &"--"];
    arguments.extend(command.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
    let output = lab.unrack(&arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(text), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn no_such_program_is_bad_usage() {
    let lab = Lab::new("absent");
    let unknown = format!("no-program-{}", lab.word());
    refused(&lab, &[&unknown], 2, "no such program");
    refused(&lab, &[lab.path("absent").to_str().unwrap()], 2, "no such file");
    std::fs::write(lab.path("text"), "hello").unwrap();
    refused(&lab, &[lab.path("text").to_str().unwrap()], 2, "not executable");
}

#[test]
fn bad_options_are_bad_usage() {
    let Some(lab) = Lab::paging("options") else { return };
    for options in [vec!["--local", "much"], vec!["--latency", "3"], vec!["--local", "64KiB"], vec![]] {
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"run"];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        if !options.is_empty() {
            arguments.extend([&"--" as &dyn AsRef<std::ffi::OsStr>, &"true"]);
        }
        let output = lab.unrack(&arguments);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn files_that_cannot_be_written_are_found_out_first() {
    let Some(lab) = Lab::paging("unwritable") else { return };
    let (mark, absent) = (lab.path("mark"), lab.path("absent/trace.parquet"));
    let output = lab.unrack(&[&"run", &LOCAL, &"--capture", &absent, &"--", &"touch", &mark]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(!mark.exists());
    for (option, place, text) in
        [("--capture", "/dev/null", "is no regular file"), ("--json", "/", "is a folder")]
    {
        let output = lab.unrack(&[&"run", &LOCAL, &option, &place, &"--", &"touch", &mark]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(text) && !mark.exists(), "{}", stderr(&output));
    }
}

#[test]
fn a_program_that_calls_userfaultfd_is_refused_and_one_that_only_names_it_is_not() {
    let Some(lab) = Lab::paging("own-pager") else { return };
    let source = |calls: &str| {
        format!(
            "#define _GNU_SOURCE\n#include <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
             int main(void) {{ puts(\"/dev/userfaultfd\"); {calls}; return 0; }}"
        )
    };
    let (names, calls) = (lab.path("names"), lab.path("calls"));
    compile(&source(""), &names, &[]);
    compile(&source("syscall(SYS_userfaultfd, 0)"), &calls, &[]);
    let output = lab.unrack(&[&"run", &LOCAL, &"--", &names]);
    assert!(output.status.success(), "{}", stderr(&output));
    refused(&lab, &[calls.to_str().unwrap()], 3, "userfaultfd itself");
    if cfg!(target_arch = "x86_64") {
        compile(&source("syscall(SYS_userfaultfd, 0)"), &calls, &["-static"]);
        refused(&lab, &[calls.to_str().unwrap()], 3, "userfaultfd itself");
    }
}

#[test]
fn a_missing_preload_library_is_refused_with_its_name() {
    let Some(lab) = Lab::paging("no-preload") else { return };
    let absent = lab.path("absent.so");
    let mut command = lab.command(&[&"run", &LOCAL, &"--", &"true"]);
    let output = command.env("UNRACK_PRELOAD", &absent).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let named = format!("UNRACK_PRELOAD names {}", absent.display());
    assert!(stderr(&output).contains(&named), "{}", stderr(&output));
}

#[test]
fn mostly_shared_memory_is_refused() {
    let Some(lab) = Lab::paging("shared") else { return };
    let program = lab.path("shared");
    compile(
        "#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\nint main(int c, char **v) {\n\
         size_t n = 64 << 20; char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);\n\
         memset(p, 1, n); usleep(c > 1 ? 300000 : 300000000); return 0; }",
        &program,
        &[],
    );
    // Shortly, and for longer than a test may take.
    for words in [&[&"short" as &dyn AsRef<std::ffi::OsStr>][..], &[]] {
        let command: [&dyn AsRef<std::ffi::OsStr>; 5] = [&"run", &"--local", &"50%", &"--", &program];
        let begin = std::time::Instant::now();
        let output = lab.unrack(&[&command[..], words].concat());
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("shared memory"), "{}", stderr(&output));
        assert!(begin.elapsed() < std::time::Duration::from_secs(60));
    }
}
