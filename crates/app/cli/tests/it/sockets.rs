//! `unrack sockets`: a program's connections by reference, its exit status, and what is said of both.

use crate::desk::Desk;
use serde_json::Value;

/// Program of Python's that passes bytes between two processes, and exits with 7.
const PROGRAM: &str = "\
import os, socket
a, b = socket.socketpair()
if os.fork() == 0:
    a.close()
    while data := b.recv(65536):
        b.sendall(data)
    os._exit(0)
b.close()
for size in [1, 10, 1000, 50000] * 5:
    a.sendall(b'x' * size)
    got = 0
    while got < size:
        got += len(a.recv(65536))
a.close()
os.wait()
print('done')
raise SystemExit(7)
";

fn words<'a>(desk: &Desk, more: &[&'a str], socket: &'a mut String) -> Vec<&'a str> {
    *socket = desk.path("sockets.sock");
    let mut words = vec!["sockets", "--socket", socket, "--capacity", "16MiB", "--after", "1"];
    words.extend(more);
    words.extend(["--", "python3", "-c", PROGRAM]);
    words
}

#[test]
fn a_programs_bytes_pass_by_reference_and_its_status_is_kept() {
    let (desk, mut socket) = (Desk::new("sockets"), String::new());
    let output = desk.unrack(&words(&desk, &["--json"], &mut socket));
    assert_eq!(output.status.code(), Some(7));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (&answer["status"], &answer["carried"], &answer["refused"]),
        (&7.into(), &1.into(), &0.into())
    );
    let bytes = answer["bytes_by_reference"].as_u64().unwrap();
    assert!(bytes > 2 * 4 * 51_011 && bytes <= 2 * 5 * 51_011, "{bytes}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("done"), "the program's own output");
    for left in ["sockets.sock", "sockets.pool"] {
        assert!(!std::path::Path::new(&desk.path(left)).exists(), "{left} is left");
    }
}

#[test]
fn what_was_carried_is_said_in_words() {
    let (desk, mut socket) = (Desk::new("sockets-words"), String::new());
    let output = desk.unrack(&words(&desk, &[], &mut socket));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 connection by reference"), "{said}");
    assert_eq!(output.stdout, b"done\n");
}

#[test]
fn a_program_that_is_not_there_is_said() {
    let desk = Desk::new("sockets-absent");
    let socket = desk.path("sockets.sock");
    let said = desk.refused(3, &["sockets", "--socket", &socket, "--", "no-such-program"]);
    assert!(said.contains("no-such-program"), "{said}");
}

#[test]
fn a_limit_of_descriptors_that_is_too_low_is_named() {
    let desk = Desk::new("sockets-descriptors");
    let line = "ulimit -n 12; exec \"$0\" sockets --socket \"$1\" -- true";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_unrack"), &desk.path("sockets.sock")]);
    let output = shell.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("12 descriptors") && said.contains("ulimit -n"), "{said}");
}
