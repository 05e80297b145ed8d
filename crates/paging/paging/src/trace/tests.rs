//! Tests of the tracer with a shell as the traced program.

use super::*;
use rustix::process::{Pid, Signal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a traced shell with this script.
fn shell(script: &str, handler: impl StopHandler + 'static) -> (Child, Tracer) {
    let (request, acceptor) = request_pair().unwrap();
    let tracer = Tracer::start(acceptor, handler).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    // SAFETY: in the child, a few system calls.
    unsafe { command.pre_exec(move || request.send()) };
    let child = command.spawn().unwrap();
    (child, tracer)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

fn send(pid: u32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[test]
fn the_end_is_known_before_the_process_is_released() {
    for (script, end) in [("exit 7", ProgramEnd::Exited(7)), ("kill -KILL $$", ProgramEnd::Signaled(9))] {
        let (child, tracer) = shell(script, Forward);
        wait_until("the process", || tracer.traced() == Some(child.id()));
        wait_until("the end", || tracer.ended().is_some());
        assert_eq!(tracer.ended(), Some(end));
        assert_eq!(state(child.id()), 'Z');
        tracer.release();
        assert_eq!(tracer.ended(), None);
        assert!(std::fs::metadata(format!("/proc/{}", child.id())).is_err());
    }
}

#[test]
fn signals_arrive_and_children_are_not_touched() {
    let script = "trap 'echo usr1' USR1; kill -USR1 $$; (exit 3); echo $?; sh -c 'kill -TERM $$' ; echo $?";
    let (child, tracer) = shell(script, Forward);
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.stdout.unwrap(), &mut output).unwrap();
    assert_eq!(output, "usr1\n3\n143\n");
    wait_until("the end", || tracer.ended() == Some(ProgramEnd::Exited(0)));
}

#[test]
fn stops_of_job_control_last_until_the_process_is_continued() {
    let (child, tracer) = shell("read line; kill -STOP $$; exit 5", Forward);
    wait_until("a stop", || matches!(state(child.id()), 't' | 'T'));
    std::thread::sleep(Duration::from_millis(50));
    assert!(tracer.ended().is_none());
    send(child.id(), Signal::CONT);
    wait_until("the end", || tracer.ended() == Some(ProgramEnd::Exited(5)));
}

#[test]
fn exec_is_seen_whichever_thread_calls_it() {
    struct Execs(std::sync::mpsc::Sender<u32>);
    impl StopHandler for Execs {
        fn stopped(&mut self, _: u32, stop: Stop) -> ResumeMode {
            if let Stop::Exec { before } = stop {
                self.0.send(before).unwrap();
            }
            stop.onward()
        }
    }
    let (sender, seen) = std::sync::mpsc::channel();
    let script = "exec python3 -c 'import os, threading, time\n\
                  threading.Thread(target=lambda: os.execv(\"/bin/true\", [\"true\"])).start()\n\
                  time.sleep(20)'";
    let (child, tracer) = shell(script, Execs(sender));
    wait_until("the end", || tracer.ended() == Some(ProgramEnd::Exited(0)));
    // The shell, Python, and what its second thread, which was not traced, became.
    let befores: Vec<_> = seen.try_iter().collect();
    assert!(befores.len() >= 2 && befores[..2] == [child.id(); 2], "{befores:?} of {}", child.id());
}

#[test]
fn a_process_whose_tracer_is_gone_learns_so() {
    let (request, acceptor) = request_pair().unwrap();
    drop(acceptor);
    assert_eq!(request.send().unwrap_err().raw_os_error(), Some(libc::EPIPE));
}
