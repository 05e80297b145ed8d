//! Sockets that are handed on while bytes are in the ring: to other programs, to other processes, to a sandbox. Whatever the
//! sender does meanwhile, none of its bytes is lost.

use crate::common::Rack;
use crate::flows::{byte, internet, pass, receive, warm_up};
use libc::{c_char, c_int, c_long, pid_t};
use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Bytes that are sent, and how many of them are received before the socket is handed on.
const SENT: usize = 100_000;
const RECEIVED: usize = 30_000;

/// Passes exactly so many bytes from standard input to standard output.
const STATIC: &str = "\
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    long left = atol(words[1]);
    static char piece[4096];
    while (left > 0) {
        long got = read(0, piece, left < 4096 ? left : 4096);
        if (got <= 0 || write(1, piece, got) != got) return 1;
        left -= got;
    }
    return 0;
}
";

/// Variable with the path of a program that is linked statically.
const PROGRAM: &str = "UNRACK_TEST_STATIC";

/// Runs a test below the library, with a program that is linked statically.
fn run(name: &str, test: &str) -> u64 {
    let rack = Rack::new(name, 64);
    let program = rack.path("static");
    std::fs::write(program.with_extension("c"), STATIC).expect("room");
    let compiler = Command::new("cc")
        .args(["-static", "-O1", "-o"])
        .arg(&program)
        .arg(program.with_extension("c"))
        .status();
    assert!(compiler.expect("a C compiler").success());
    rack.run_with(test, |role| {
        role.env(PROGRAM, &program);
    });
    rack.carried()
}

#[test]
fn whatever_the_sender_does_a_program_has_what_was_not_received() {
    assert!(run("sockets-handed", "handover::programs") >= 20);
}

#[test]
fn what_a_program_leaves_unread_its_parent_receives() {
    assert!(run("sockets-unread", "handover::unread") >= 10);
}

#[test]
fn whatever_the_sender_does_a_socket_that_is_passed_on_is_whole() {
    assert!(run("sockets-passed-on", "handover::passed_on") >= 10);
}

#[test]
fn a_stream_of_the_c_library_has_what_was_in_the_ring() {
    assert!(run("sockets-stream", "handover::streams") >= 10);
}

#[test]
fn a_process_in_a_sandbox_goes_on_with_its_sockets() {
    assert!(run("sockets-sandbox", "handover::sandboxes") >= 8);
}

/// What the sender does once it has sent.
#[derive(Debug, Clone, Copy)]
enum Then {
    Receives,
    Sleeps,
    ShutsDown,
    Closes,
    Exits,
    IsKilled,
}

const ALL: [Then; 6] =
    [Then::Receives, Then::Sleeps, Then::ShutsDown, Then::Closes, Then::Exits, Then::IsKilled];

/// A process that has sent bytes. It is killed when this is dropped.
struct Sender(pid_t);

impl Drop for Sender {
    fn drop(&mut self) {
        // SAFETY: a child of this process.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn pair(is_unix: bool) -> (OwnedFd, OwnedFd) {
    if is_unix {
        let (one, other) = UnixStream::pair().expect("a pair");
        (one.into(), other.into())
    } else {
        let (one, other) = internet();
        (one.into(), other.into())
    }
}

/// Returns a connection from which a part was received of what a sender has sent.
fn begun(is_unix: bool, then: Then) -> (std::fs::File, Sender) {
    let (ours, theirs) = pair(is_unix);
    let (mut ours, mut theirs) = (std::fs::File::from(ours), std::fs::File::from(theirs));
    warm_up(&ours, &theirs);
    let (mut ready, says) = std::io::pipe().expect("a pipe");
    // SAFETY: the child only makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop((ours, ready));
        let bytes: Vec<u8> = (0..SENT as u64).map(byte).collect();
        let sent = theirs.write_all(&bytes);
        let fd = theirs.as_raw_fd();
        // SAFETY: descriptors of this process, which ends here.
        unsafe {
            match then {
                Then::ShutsDown => {
                    libc::shutdown(fd, libc::SHUT_WR);
                }
                Then::Closes => {
                    libc::close(fd);
                }
                _ => {}
            }
            if matches!(then, Then::IsKilled) {
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
            if matches!(then, Then::Exits) || sent.is_err() {
                libc::_exit(0);
            }
            drop(says);
            if matches!(then, Then::Receives) {
                libc::recv(fd, [0_u8].as_mut_ptr().cast(), 1, 0);
            }
            loop {
                libc::pause();
            }
        }
    }
    drop((theirs, says));
    // All is sent when the child has said so, or has ended.
    let _ = ready.read(&mut [0]);
    let sender = Sender(child);
    let mut piece = vec![0; RECEIVED];
    ours.read_exact(&mut piece).expect("a part");
    check(&piece, 0);
    (ours, sender)
}

fn check(found: &[u8], first: usize) {
    let wrong = found.iter().enumerate().find(|(i, found)| **found != byte((first + i) as u64));
    assert_eq!(wrong, None, "after {first} bytes");
}

#[derive(Debug, Clone, Copy)]
enum Program {
    /// Linked statically, so that the library is not there although the environment names it.
    Static,
    Without,
    With,
}

impl Program {
    /// Returns a command that passes so many bytes on.
    fn command(self, bytes: usize) -> Command {
        let mut command = match self {
            Program::Static => {
                let mut command = Command::new(std::env::var_os(PROGRAM).expect("a program"));
                command.arg(bytes.to_string());
                command
            }
            Program::Without | Program::With => {
                let mut command = Command::new("head");
                command.arg("-c").arg(bytes.to_string());
                command
            }
        };
        if let Program::Without = self {
            command.env_remove("LD_PRELOAD");
        }
        command
    }
}

/// Runs a program on a socket, and returns its output.
fn run_on(socket: &std::fs::File, mut program: Command, by_fork: bool) -> Vec<u8> {
    program.stdin(OwnedFd::from(socket.try_clone().expect("a copy"))).stderr(Stdio::inherit());
    if by_fork {
        // SAFETY: nothing is done: the standard library then forks instead of spawning.
        unsafe { program.pre_exec(|| Ok(())) };
    }
    program.stdout(Stdio::piped()).output().expect("its output").stdout
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn programs() {
    let mut by_fork = false;
    for is_unix in [false, true] {
        for then in ALL {
            for program in [Program::Static, Program::Without, Program::With] {
                let (socket, _sender) = begun(is_unix, then);
                by_fork = !by_fork;
                let left = SENT - RECEIVED;
                let output = run_on(&socket, program.command(left), by_fork);
                assert_eq!(output.len(), left, "Unix {is_unix}, {then:?}, {program:?}, fork {by_fork}");
                check(&output, RECEIVED);
            }
        }
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn unread() {
    for is_unix in [false, true] {
        for then in ALL {
            let (mut socket, _sender) = begun(is_unix, then);
            let part = 20_000;
            let output = run_on(&socket, Program::Static.command(part), true);
            assert_eq!(output.len(), part, "Unix {is_unix}, {then:?}");
            check(&output, RECEIVED);
            let mut rest = vec![0; SENT - RECEIVED - part];
            let got = socket.read_exact(&mut rest);
            assert!(got.is_ok(), "Unix {is_unix}, {then:?}: {got:?}");
            check(&rest, RECEIVED + part);
        }
    }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn passed_on() {
    for is_unix in [false, true] {
        for then in ALL {
            let (socket, _sender) = begun(is_unix, then);
            let (from, to) = UnixStream::pair().expect("a pair");
            pass(&from, socket.as_raw_fd());
            drop(socket);
            let mut rest = vec![0; SENT - RECEIVED];
            std::fs::File::from(OwnedFd::from(receive(&to))).read_exact(&mut rest).expect("the rest");
            check(&rest, RECEIVED);
        }
    }
}

unsafe extern "C" {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE;
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn streams() {
    for is_unix in [false, true] {
        for then in ALL {
            let (socket, _sender) = begun(is_unix, then);
            let mut rest = vec![0_u8; SENT - RECEIVED];
            // SAFETY: a descriptor of our own, and room for so many bytes.
            let got = unsafe {
                let stream = fdopen(libc::dup(socket.as_raw_fd()), c"r".as_ptr());
                let got = libc::fread(rest.as_mut_ptr().cast(), 1, rest.len(), stream);
                libc::fclose(stream);
                got
            };
            assert_eq!(got, rest.len(), "Unix {is_unix}, {then:?}");
            check(&rest, RECEIVED);
        }
    }
}

/// Ways to set a filter.
const WAYS: [fn() -> c_long; 3] = [by_prctl, by_seccomp, by_bare_prctl];

fn by_prctl() -> c_long {
    let strict = libc::SECCOMP_MODE_STRICT as libc::c_ulong;
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, strict, 0, 0, 0) }.into()
}

fn by_seccomp() -> c_long {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_STRICT, 0, 0) }
}

fn by_bare_prctl() -> c_long {
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) }
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn sandboxes() {
    for is_unix in [false, true] {
        for way in WAYS {
            for has_bytes in [false, true] {
                sandbox(is_unix, way, has_bytes);
            }
        }
    }
}

/// Has a child echo that may only read, write and exit. With `has_bytes`, some are in the ring when it gives up the rest.
fn sandbox(is_unix: bool, way: fn() -> c_long, has_bytes: bool) {
    let (ours, theirs) = pair(is_unix);
    let (mut ours, theirs) = (std::fs::File::from(ours), std::fs::File::from(theirs));
    warm_up(&ours, &theirs);
    let early = if has_bytes { 10_000 } else { 0 };
    let bytes: Vec<u8> = (0..20_000_u64).map(byte).collect();
    ours.write_all(&bytes[..early]).expect("room");
    // SAFETY: the child only makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ours);
        echo(theirs.as_raw_fd(), way);
    }
    drop(theirs);
    ours.write_all(&bytes[early..]).expect("room");
    let mut echoed = vec![0; bytes.len()];
    ours.read_exact(&mut echoed).expect("an echo");
    assert!(echoed == bytes);
    drop(ours);
    let mut status = 0;
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:x}");
}

fn echo(fd: RawFd, way: fn() -> c_long) -> ! {
    let mut piece = [0_u8; 4096];
    let is_set = way() == 0;
    // SAFETY: a buffer of our own; the process ends by the one call that is left for it.
    unsafe {
        loop {
            let got = libc::read(fd, piece.as_mut_ptr().cast(), piece.len());
            if got <= 0 || !is_set {
                libc::syscall(libc::SYS_exit, if got == 0 && is_set { 0 } else { 1 });
            }
            let mut done = 0;
            while done < got {
                done += libc::write(fd, piece.as_ptr().add(done as usize).cast(), (got - done) as usize);
            }
        }
    }
}

/// A relay that could not map its buffers once ended after its maker had handed the socket over: all bytes in the ring were lost.
#[test]
fn without_memory_for_a_relay_a_program_does_not_start_and_no_byte_is_lost() {
    assert!(run("sockets-no-memory", "handover::no_memory") >= 1);
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn no_memory() {
    let (mut socket, _sender) = begun(false, Then::Sleeps);
    let program = CString::new(std::env::var(PROGRAM).expect("a path")).expect("no zeros");
    let words = [program.as_ptr(), c"10".as_ptr(), std::ptr::null()];
    // SAFETY: the child only makes system calls, and becomes another program or ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let pages = std::fs::read_to_string("/proc/self/statm").ok();
        let pages: u64 = pages.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
        // Room for the new program, and not for a mebibyte more in this one.
        let most = libc::rlimit { rlim_cur: pages * 4096 + (512 << 10), rlim_max: libc::RLIM_INFINITY };
        // SAFETY: descriptors and texts of this process.
        unsafe {
            libc::dup2(socket.as_raw_fd(), 0);
            libc::setrlimit(libc::RLIMIT_AS, &raw const most);
            libc::execv(program.as_ptr(), words.as_ptr());
            libc::_exit(42);
        }
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 42, "the program must not start: {status:x}");
    let mut rest = vec![0; SENT - RECEIVED];
    socket.read_exact(&mut rest).expect("all bytes");
    check(&rest, RECEIVED);
}

#[test]
fn a_relay_is_nobodys_child() {
    assert!(run("sockets-relay", "handover::relays") >= 2);
}

#[test]
#[ignore = "runs below the preload library, started by a test above"]
fn relays() {
    let (socket, sender) = begun(false, Then::Sleeps);
    let (from, to) = UnixStream::pair().expect("a pair");
    pass(&from, socket.as_raw_fd());
    drop(socket);
    drop(sender);
    // SAFETY: no status is asked for.
    let child = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
    assert_eq!((child, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
    let mut rest = Vec::new();
    let mut passed = receive(&to);
    let ended = passed.read_to_end(&mut rest);
    assert!(ended.is_ok() || rest.len() == SENT - RECEIVED, "{ended:?}");
    check(&rest, RECEIVED);
    assert_eq!(rest.len(), SENT - RECEIVED);
}
