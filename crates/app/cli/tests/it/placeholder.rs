//! `unrack run` becomes its program: shells, pid files and supervisors see the process that they started.

use crate::common;

use common::{Lab, Marked, compile, stderr, wait_until};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// Starts the command under `unrack run`; its output goes to pipes.
fn start(lab: &Lab, options: &[&str], command: &[&str]) -> Child {
    let mut started = Command::new(env!("CARGO_BIN_EXE_unrack"));
    started.args(["run", "--local", "4MiB"]).args(options).arg("--").args(command);
    started.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
    started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn kill(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Program that tells which signals came, and ends at SIGTERM.
const TELLER: &str = r#"
import os, signal, sys
def told(number, frame):
    print(signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM: sys.exit(9)
for number in [signal.SIGINT, signal.SIGTERM, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1]:
    signal.signal(number, told)
open(sys.argv[1], "w").write(str(os.getpid()))
while True: signal.pause()
"#;

#[test]
#[ignore = "long: make soak runs it"]
fn the_program_is_the_process_that_was_started() {
    let Some(lab) = Lab::paging("seat") else { return };
    let json = lab.path("summary.json");
    for status in 0..20 {
        let script = format!("echo $$; exit {status}");
        let child = start(&lab, &["--json", json.to_str().unwrap()], &["sh", "-c", &script]);
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{pid}\n"));
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(json.exists(), "the summary is there before the end is known");
        std::fs::remove_file(&json).unwrap();
    }
}

#[test]
fn a_program_that_is_killed_by_a_signal_ends_so() {
    let Some(lab) = Lab::paging("seat-signal") else { return };
    let output = start(&lab, &[], &["sh", "-c", "kill -SEGV $$"]).wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(11), "{}", stderr(&output));
}

#[test]
fn signals_are_the_programs() {
    let Some(lab) = Lab::paging("seat-signals") else { return };
    let mark = lab.path("pid");
    let mut child = start(&lab, &[], &["python3", "-c", TELLER, mark.to_str().unwrap()]);
    wait_until("the program is ready", || {
        std::fs::read_to_string(&mark).is_ok_and(|pid| pid == child.id().to_string())
    });
    let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
    for signal in ["INT", "WINCH", "TSTP", "CONT", "USR1", "TERM"] {
        kill(&format!("-{signal}"), &child);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut told, &mut line).unwrap();
        assert_eq!(line, format!("SIG{signal}\n"));
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(9));
}

#[test]
fn a_signal_that_was_ignored_at_birth_is_ignored_unless_the_program_wants_it() {
    let Some(lab) = Lab::paging("seat-ignored") else { return };
    let told = |script: &str| {
        let command = format!(
            "trap '' INT; exec {} run --local 4MiB -- sh -c '{script}'",
            env!("CARGO_BIN_EXE_unrack")
        );
        let output = Command::new("sh").args(["-c", &command]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(told("kill -INT $$; echo alive"), "alive\n");
    let python =
        "python3 -c \"import signal, os; signal.signal(2, lambda *_: print(1)); os.kill(os.getpid(), 2)\"";
    assert_eq!(told(&format!("exec {python}")), "1\n");
    drop(lab);
}

#[test]
fn the_program_has_no_children_that_it_did_not_make() {
    let Some(lab) = Lab::paging("seat-children") else { return };
    let script = "import os\ntry: print(os.wait())\nexcept ChildProcessError: print('none')";
    let output = start(&lab, &[], &["python3", "-c", script]).wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "none\n", "{}", stderr(&output));
}

#[test]
fn stopped_and_continued_it_goes_on() {
    let Some(lab) = Lab::paging("seat-stopped") else { return };
    let mark = lab.path("mark");
    let script = format!("touch {}; sleep 0.5; exit 5", mark.display());
    let child = start(&lab, &[], &["sh", "-c", &script]);
    wait_until("the program runs", || mark.exists());
    kill("-STOP", &child);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    wait_until("it has stopped", || [") T ", ") t "].iter().any(|stopped| state().contains(stopped)));
    kill("-CONT", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(5));
}

#[test]
fn what_is_left_behind_has_the_time_that_was_given() {
    let Some(lab) = Lab::paging("seat-grace") else { return };
    let said = lab.path("said");
    let script = format!("(setsid sh -c 'sleep 1; echo late > {}') & exit 0", said.display());
    let begin = std::time::Instant::now();
    assert!(
        start(&lab, &["--grace", "50s"], &["sh", "-c", &script]).wait_with_output().unwrap().status.success()
    );
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "late\n");
    assert!(begin.elapsed().as_secs() < 50, "it need not wait longer");
    std::fs::remove_file(&said).unwrap();
    start(&lab, &["--grace", "0ms"], &["sh", "-c", &script]).wait_with_output().unwrap();
    assert!(!said.exists());
}

/// Source of a program that runs another one without the right to trace.
const WITHOUT_PTRACE: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[1], words + 1);
    return 98;
}
"#;

#[test]
fn without_the_right_to_trace_the_program_runs_as_a_child() {
    let Some(lab) = Lab::paging("seat-untraced") else { return };
    let (without, mark) = (lab.path("without-ptrace"), lab.path("mark"));
    compile(WITHOUT_PTRACE, &without, &[]);
    let run = |script: &str| {
        let mut command = Command::new(&without);
        command.args([env!("CARGO_BIN_EXE_unrack"), "run", "--local", "4MiB", "--", "sh", "-c", script]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let output = run("echo here; exit 7").wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(7), &b"here\n"[..]), "{}", stderr(&output));
    let child = run(&format!("touch {}; exec sleep 50", mark.display()));
    wait_until("the program runs", || mark.exists());
    kill("-TERM", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
}

#[test]
fn its_helpers_end_with_it() {
    let Some(lab) = Lab::paging("seat-helpers") else { return };
    let marked = Marked::new(&lab);
    let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
    command.args(["run", "--local", "4MiB", "--", "true"]).stderr(Stdio::null());
    assert!(marked.mark(&mut command).status().unwrap().success());
    wait_until("the guard and the worker have ended", || marked.left().is_empty());
}
