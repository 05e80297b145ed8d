//! The command and the program that started it and named itself in `UNRACK_PARENT`, as Python does.

use crate::common::wait_until;
use crate::desk::Desk;
use std::path::Path;
use std::process::{Command, Stdio};

/// Script that names itself as the parent of the command, starts it, and waits.
const SCRIPT: &str = r#"UNRACK_PARENT=$$ "$0" pool serve --capacity 4MiB --socket "$1" & wait"#;

#[test]
fn it_ends_with_a_parent_that_is_killed() {
    let desk = Desk::new("parent");
    let (unrack, socket) = (env!("CARGO_BIN_EXE_unrack"), desk.path("pool"));
    let mut parent = Command::new("sh")
        .args(["-c", SCRIPT, unrack, &socket])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let listed = || Command::new(unrack).args(["pool", "ls", "--socket", &socket]).output();
    wait_until("the pool is served", || listed().unwrap().status.success());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // It removes its socket when it ends.
    wait_until("the command ends", || !Path::new(&socket).exists());
}
