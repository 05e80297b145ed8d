//! `unrack run --pid`: processes that it must leave alone, or that are there beside the one that lends.
#![cfg(target_arch = "x86_64")]

use crate::common;
use crate::pid::{Server, checks, has_pager, kib_of, lab, threads};

use common::{children, compile, stderr, wait_until};
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

/// Program of which one thread, but not the first, filters its system calls: at once, or with a word when it has the pager.
const FILTERS: &str = r#"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { LEN = 12 << 20 };
static unsigned char *data;
static volatile int is_over, is_filtered, waits;
/* The pager reserves more than 256 GiB of addresses. */
static int has_pager(void) {
    char text[4096] = "";
    FILE *file = fopen("/proc/self/status", "r");
    fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return atol(strstr(text, "VmSize:") + 7) > 1L << 28;
}
static void *filter(void *_) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    while (waits && !has_pager()) usleep(1000);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) _exit(70);
    is_filtered = 1;
    while (!is_over) for (size_t i = 0; i < LEN; i += 4096) if (data[i] != (unsigned char)(i >> 12)) abort();
    syscall(SYS_exit, 0);
    return 0;
}
int main(int count, char **words) {
    waits = count > 1;
    data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++) data[i] = i >> 12;
    pthread_t thread;
    pthread_create(&thread, 0, filter, 0);
    while (!waits && !is_filtered) usleep(1000);
    struct pollfd input = {0, POLLIN};
    poll(&input, 1, -1);
    if (!is_filtered) return 71;
    is_over = 1;
    puts("unharmed");
    fflush(stdout);
    _exit(0);
}
"#;

#[test]
fn a_filter_on_any_thread_is_found_before_anything_is_done() {
    let Some(lab) = lab("filtered-thread") else { return };
    let program = lab.path("filters");
    compile(FILTERS, &program, &["-O1", "-pthread"]);
    let server = Server::start(&program, &[]).with_memory(12 << 10);
    wait_until("its thread has a filter", || {
        threads(server.pid()).iter().any(|thread| common_status(*thread, "Seccomp:") == "2")
    });
    let output = lab.unrack(&[&"run", &"--pid", &server.pid().to_string(), &"--for", &"1s"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("has a thread ("), "{}", stderr(&output));
    assert!(stderr(&output).contains("filter of system calls (seccomp)"), "{}", stderr(&output));
    server.must_be_unharmed();
}

#[test]
fn a_thread_that_filters_its_calls_during_a_loan_is_not_made_to_call() {
    let Some(lab) = lab("filtered-later") else { return };
    let program = lab.path("filters");
    compile(FILTERS, &program, &["-O1", "-pthread"]);
    let server = Server::start(&program, &["later"]).with_memory(12 << 10);
    let (output, _) = lab.borrow(server.pid(), &["--local", "25%", "--for", "2s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    server.must_be_unharmed();
}

fn common_status(thread: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().to_string()
}

#[test]
fn the_status_is_that_of_a_process_that_was_killed() {
    let Some(lab) = lab("killed-target") else { return };
    let program = &checks(&lab)[0];
    let server = Server::start(program, &[]).with_memory(12 << 10);
    let unrack = lab.begin(server.pid());
    wait_until("the pager is there", || has_pager(server.pid()));
    assert!(Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap().success());
    let output = unrack.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(1 | 137)), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended"), "{}", stderr(&output));
    // Long after the agent was put in, the status is known.
    let server = Server::start(program, &[]).with_memory(12 << 10);
    let pid = server.pid().to_string();
    let mut command = lab.command(&[&"run", &"--pid", &pid, &"--local", &"2MiB", &"--for", &"60s"]);
    let unrack = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("much is away", || kib_of(server.pid(), "VmSize:") > 1 << 28);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let output = unrack.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", stderr(&output));
    assert!(stderr(&output).contains("ended with status 137"), "{}", stderr(&output));
}

#[test]
fn a_process_that_is_killed_while_the_agent_is_put_in_holds_up_nobody() {
    let Some(lab) = lab("killed-at-once") else { return };
    let program = &checks(&lab)[0];
    for _ in 0..4 {
        let server = Server::start(program, &[]).with_memory(12 << 10);
        let mut unrack = lab.begin(server.pid());
        assert!(Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap().success());
        wait_until("unrack has ended", || unrack.try_wait().unwrap().is_some());
        assert_ne!(unrack.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn of_two_at_once_one_is_refused_with_the_reason() {
    let Some(lab) = lab("two") else { return };
    let server = Server::start(&checks(&lab)[0], &[]).with_memory(12 << 10);
    let start = || {
        let pid = server.pid().to_string();
        let mut command = lab.command(&[&"run", &"--pid", &pid, &"--local", &"50%", &"--for", &"2s"]);
        command.stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|unrack| unrack.wait_with_output().unwrap());
    let said = both.each_ref().map(stderr);
    let mut codes = both.each_ref().map(|output| output.status.code());
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(3)], "{said:?}");
    assert!(said.iter().any(|said| said.contains("is paged by unrack already")), "{said:?}");
    server.must_be_unharmed();
}

/// Program with a worker that was there before, as database servers have them.
const MASTER: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum { LEN = 12 << 20 };
static int serve(int input) {
    unsigned char *data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++) data[i] = i * 2654435761u >> 13;
    for (struct pollfd wait = {input, POLLIN}; poll(&wait, 1, 0) == 0;)
        for (size_t i = 0; i < LEN; i += 64) if (data[i] != (unsigned char)(i * 2654435761u >> 13)) return 70;
    return 0;
}
int main(void) {
    int ends[2], status;
    pipe(ends);
    pid_t worker = fork();
    if (worker == 0) {
        close(ends[1]);
        _exit(serve(ends[0]));
    }
    close(ends[0]);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    close(ends[1]);
    waitpid(worker, &status, 0);
    if (status) return 71;
    puts("unharmed");
    return 0;
}
"#;

#[test]
fn processes_that_were_there_before_are_named_or_taken_too() {
    let Some(lab) = lab("tree") else { return };
    let program = lab.path("master");
    compile(MASTER, &program, &["-O1"]);
    let server = Server::start(&program, &[]);
    wait_until("its worker has memory", || {
        children(server.pid()).iter().any(|worker| kib_of(*worker, "RssAnon:") >= 12 << 10)
    });
    let worker = children(server.pid())[0];
    let (output, summary) = lab.borrow(server.pid(), &["--local", "25%", "--for", "500ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(&format!("kept all of their memory: master ({worker})")),
        "{}",
        stderr(&output)
    );
    assert!(!stderr(&output).contains("is all that the program needs"), "{}", stderr(&output));
    assert_eq!(summary["processes"], 1, "{summary}");
    let (output, summary) = lab.borrow(server.pid(), &["--local", "25%", "--tree", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(summary["processes"], 2, "{summary}");
    assert!(summary["footprint_bytes"].as_u64().unwrap() >= 12 << 20, "{summary}");
    assert!(summary["fetches"].as_u64().unwrap() > 1000, "{summary}");
    server.must_be_unharmed();
}

/// Control group (version 1 or 2) with a limit, removed when dropped.
struct Group(std::path::PathBuf);

impl Group {
    fn new(name: &str, limit: u64) -> Option<Group> {
        let name = format!("unrack-test-{name}-{}", std::process::id());
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        places.into_iter().find_map(|(mount, file)| {
            let group = Group(std::path::Path::new(mount).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(file), limit.to_string()).is_ok().then_some(group)
        })
    }

    fn take(&self, pid: u32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Also of a test that failed.
        let members = || std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        let left = members();
        if !left.is_empty() {
            let _ = Command::new("kill").arg("-9").args(left.split_ascii_whitespace()).status();
        }
        for _ in 0..200 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn what_a_fork_would_not_find_room_for_is_not_taken() {
    let Some(lab) = lab("headroom") else { return };
    // The server has 12 MiB and a little; three quarters of it twice do not fit.
    let Some(group) = Group::new("headroom", 24 << 20) else {
        return skip(TestRequirement::Root, "needs root and control groups of memory");
    };
    let program = lab.path("waits");
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) { char *data = 0; getchar(); data = malloc(16 << 20); memset(data, 7, 16 << 20); getchar(); return data[9] != 7; }
"#;
    compile(source, &program, &["-O0"]);
    let mut server = Command::new(&program).stdin(std::process::Stdio::piped()).spawn().unwrap();
    group.take(server.id());
    use std::io::Write;
    server.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    wait_until("its memory is there", || kib_of(server.id(), "RssAnon:") >= 16 << 10);
    let run = |local: &str| {
        let pid = server.id().to_string();
        lab.unrack(&[&"run", &"--pid", &pid, &"--for", &"300ms", &"--local", &local])
    };
    let output = run("25%");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    for part in ["would get copies", "control group", "Give it --local"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    let output = run("100%");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}
