//! `unrack run --pid`: memory of a process that runs already, which is to go on as if nothing had been.
#![cfg(target_arch = "x86_64")]

use crate::common;

use common::{Lab, compile, stderr, wait_until};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use unrack_testing::{TestRequirement, skip};

/// Program whose threads check all of its memory over and over until its input ends. It makes threads all the time, and
/// with an argument forks; each child checks its memory, too.
const CHECKS: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { LEN = 12 << 20 };
static unsigned char *data;
static unsigned long want;
static volatile int is_over;
static unsigned long sum(void) {
    unsigned long s = 0;
    for (size_t i = 0; i < LEN; i += 8) s = s * 31 + *(unsigned long *)(data + i);
    return s;
}
static void *check(void *rounds) {
    for (; !is_over; ++*(long *)rounds) if (sum() != want) _exit(70);
    return 0;
}
static void *end(void *_) { return 0; }
int main(int count, char **words) {
    int status;
    long rounds[3] = {0};
    data = malloc(LEN);
    for (size_t i = 0; i < LEN; i++) data[i] = i * 2654435761u >> 13;
    want = sum();
    pthread_t threads[3], short_lived;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, check, &rounds[i]);
    for (struct pollfd input = {0, POLLIN}; poll(&input, 1, 20) == 0;) {
        pthread_create(&short_lived, 0, end, 0);
        if (pthread_join(short_lived, 0)) return 71;
        char *moved = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(moved, 7, 1 << 20);
        moved = mremap(moved, 1 << 20, 2 << 20, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED || moved[77777] != 7 || moved[1 << 20]) return 72;
        munmap(moved, 2 << 20);
        if (count > 1) {
            pid_t child = fork();
            if (child == 0) {
                // A child of a child, that needs memory at once and for long.
                pid_t grandchild = fork();
                if (grandchild == 0) _exit(sum() == want ? 0 : 73);
                waitpid(grandchild, &status, 0);
                _exit(status || sum() != want ? 74 : 0);
            }
            waitpid(child, &status, 0);
            if (status) return 75;
        }
    }
    is_over = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], 0);
        if (!rounds[i]) return 76;
    }
    puts("unharmed");
    return 0;
}
"#;

/// Program whose threads wait in all ways that a stop could disturb. Signals that it ignores come all the time.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static int ends[2], silent[2], pair[2], set;
static sem_t sem;
static void *reads(void *_) { char b; return (void *)(long)(read(ends[0], &b, 1) == 1 ? 0 : errno); }
static void *waits(void *_) { return (void *)(long)(sem_wait(&sem) ? errno : 0); }
static void *polls(void *_) { struct pollfd p = {silent[0], POLLIN}; return (void *)(long)(poll(&p, 1, 5000) < 0 ? errno : 0); }
static void *selects(void *_) { fd_set s; FD_ZERO(&s); FD_SET(silent[0], &s); struct timeval t = {5, 0}; return (void *)(long)(select(silent[0] + 1, &s, 0, 0, &t) < 0 ? errno : 0); }
static void *epolls(void *_) { struct epoll_event e; return (void *)(long)(epoll_wait(set, &e, 1, 5000) < 0 ? errno : 0); }
static void *receives(void *_) { char b; return (void *)(long)(recv(pair[0], &b, 1, 0) < 0 && errno != EAGAIN ? errno : 0); }
static void *awaits(void *_) { sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); struct timespec t = {5, 0}; return (void *)(long)(sigtimedwait(&s, 0, &t) < 0 && errno != EAGAIN ? errno : 0); }
static void *sleeps(void *_) {
    struct timespec begin, end, time = {5, 0};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int result = nanosleep(&time, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
    return (void *)(long)(result ? errno : ms < 5000 || ms > 6500 ? 1000 : 0);
}
static void *semops(void *id) { struct sembuf op = {0, -1, 0}; struct timespec t = {5, 0}; return (void *)(long)(semtimedop((int)(long)id, &op, 1, &t) < 0 && errno != EAGAIN ? errno : 0); }
int main(void) {
    size_t len = 16 << 20;
    unsigned char *data = malloc(len);
    for (size_t i = 0; i < len; i++) data[i] = i * 2654435761u >> 13;
    sigset_t s; sigemptyset(&s); sigaddset(&s, SIGUSR2); sigprocmask(SIG_BLOCK, &s, 0);
    int id = semget(IPC_PRIVATE, 1, 0600);
    void *(*all[])(void *) = {reads, waits, polls, selects, epolls, receives, awaits, sleeps, semops};
    int n = sizeof all / sizeof *all;
    pthread_t threads[9];
    pipe(ends), pipe(silent), sem_init(&sem, 0, 0), socketpair(AF_UNIX, SOCK_STREAM, 0, pair), set = epoll_create1(0);
    struct epoll_event e = {EPOLLIN}; epoll_ctl(set, EPOLL_CTL_ADD, silent[0], &e);
    struct timeval t = {5, 0}; setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    for (int i = 0; i < n; i++) pthread_create(&threads[i], 0, all[i], (void *)(long)id);
    unsigned long sum = 0, at = 1;
    time_t end = time(0) + 5;
    while (time(0) < end) {
        for (int i = 0; i < 1000; i++) data[(at = at * 6364136223846793005ul + 1) % len] += 0;
        for (int i = 0; i < n; i++) pthread_kill(threads[i], SIGWINCH);
        usleep(10000);
    }
    write(ends[1], "x", 1), sem_post(&sem);
    for (int i = 0; i < n; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%ld ", (long)result);
    }
    semctl(id, 0, IPC_RMID);
    puts("");
}
"#;

/// A program that runs by itself. Dropping it kills it.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(program: &Path, words: &[&str]) -> Server {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        Server(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it has this much memory.
    pub(crate) fn with_memory(self, kib: u64) -> Server {
        wait_until("its memory is there", || kib_of(self.pid(), "RssAnon:") >= kib);
        self
    }

    /// Ends its input, and returns its status and output.
    pub(crate) fn result(mut self) -> (Option<i32>, String) {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }

    pub(crate) fn must_be_unharmed(self) {
        assert_eq!(self.result(), (Some(0), "unharmed\n".into()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status_of(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().trim_end_matches(" kB").to_string()
}

pub(crate) fn kib_of(pid: u32, name: &str) -> u64 {
    status_of(pid, name).parse().unwrap_or(0)
}

/// Returns what could be left in a process: its tracer, threads, files, filter, and ban of huge pages; and how many GiB of
/// addresses it has.
fn traces(pid: u32) -> (Vec<String>, usize, u64) {
    let names = ["TracerPid:", "Seccomp:", "NoNewPrivs:", "THP_enabled:"];
    let words = names.map(|name| status_of(pid, name)).to_vec();
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    (words, files, kib_of(pid, "VmSize:") >> 20)
}

impl Lab {
    /// Takes memory from a process; returns the output and the summary.
    pub(crate) fn borrow(&self, pid: u32, options: &[&str]) -> (Output, serde_json::Value) {
        let json = self.path("borrow.json");
        let pid = pid.to_string();
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"run", &"--pid", &pid, &"--json", &json];
        words.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        let output = self.unrack(&words);
        let text = std::fs::read(&json).unwrap_or_else(|_| panic!("no summary: {}", stderr(&output)));
        (output, serde_json::from_slice(&text).unwrap())
    }

    /// Starts to take memory, and returns when this process is traced.
    pub(crate) fn begin(&self, pid: u32) -> Child {
        // As in the background of a script, which lets its commands ignore SIGINT.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' INT; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_unrack")]);
        command.args(["run", "--local", "2MiB", "--pid", &pid.to_string()]).stderr(Stdio::piped());
        let unrack = command.env("TMPDIR", self.path("tmp")).spawn().unwrap();
        wait_until("the process is traced", || status_of(pid, "TracerPid:") != "0");
        unrack
    }
}

/// Makes a lab; `None`, with a message, where unrack cannot be told of forks.
pub(crate) fn lab(name: &str) -> Option<Lab> {
    let lab = Lab::paging(name)?;
    let capabilities = u64::from_str_radix(&status_of(std::process::id(), "CapEff:"), 16).unwrap();
    if capabilities & 1 << 19 == 0 {
        skip(TestRequirement::Userfaultfd, "needs CAP_SYS_PTRACE");
        return None;
    }
    Some(lab)
}

/// Returns the threads of a process, the oldest first.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Returns whether a process has the pager, which reserves a quarter of a TiB of addresses.
pub(crate) fn has_pager(pid: u32) -> bool {
    kib_of(pid, "VmSize:") > 1 << 28
}

pub(crate) fn checks(lab: &Lab) -> Vec<PathBuf> {
    let ways = [
        ("dynamic", &["-O1", "-pthread", "-D_GNU_SOURCE"][..]),
        ("static", &["-O1", "-pthread", "-static", "-D_GNU_SOURCE"]),
    ];
    ways.map(|(name, options)| {
        let program = lab.path(name);
        compile(CHECKS, &program, options);
        program
    })
    .to_vec()
}

#[test]
#[ignore = "long: make soak runs it"]
fn a_process_lends_memory_again_and_again() {
    let Some(lab) = lab("lends") else { return };
    for program in checks(&lab) {
        let server = Server::start(&program, &[]).with_memory(12 << 10);
        let before = traces(server.pid());
        for (local, least) in [("25%", 1000), ("10%", 2000)] {
            let (output, summary) = lab.borrow(server.pid(), &["--local", local, "--for", "1500ms"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(stderr(&output).contains("was given back"), "{}", stderr(&output));
            assert!(summary["fetches"].as_u64().unwrap() > least, "{summary}");
            let (footprint, limit) = (&summary["footprint_bytes"], &summary["local_bytes"]);
            let peak = summary["peak_local_bytes"].as_u64().unwrap();
            assert!(footprint.as_u64().unwrap() >= 12 << 20, "{summary}");
            assert!(peak < 2 * limit.as_u64().unwrap(), "{summary}");
            assert_eq!(traces(server.pid()), before, "nothing is left");
        }
        server.must_be_unharmed();
    }
}

#[test]
fn forks_bring_all_memory_to_children() {
    let Some(lab) = lab("forks") else { return };
    for program in checks(&lab) {
        let server = Server::start(&program, &["forks"]).with_memory(12 << 10);
        for local in ["25%", "10%"] {
            let (output, summary) = lab.borrow(server.pid(), &["--local", local, "--for", "1s"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(summary["fetches"].as_u64().unwrap() > 100, "{summary}");
        }
        server.must_be_unharmed();
    }
}

/// Parent and child move, drop and give up memory in the moment of the fork, and children fork again.
#[test]
fn memory_may_change_while_children_get_theirs() {
    let Some(lab) = lab("changes") else { return };
    let source = r#"
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MIB = 1 << 20, PAGE = 4096, KEPT = 8 * MIB, MOVED = 2 * MIB };
static unsigned char *kept, *volatile moved;
static volatile int is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *get(size_t len) {
    return mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void fill(unsigned char *at, size_t len, int seed) {
    for (size_t i = 0; i < len; i += 64) *(unsigned long *)(at + i) = (i + seed) * 2654435761u;
}
static int is_whole(unsigned char *at, size_t from, size_t to, int seed) {
    for (size_t i = from; i < to; i += 64)
        if (*(unsigned long *)(at + i) != (i + seed) * 2654435761u) return 0;
    return 1;
}
static void *move(void *_) {
    while (!is_over) {
        unsigned char *to = get(MOVED);
        pthread_mutex_lock(&lock);
        moved = mremap(moved, MOVED, MOVED, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        pthread_mutex_unlock(&lock);
        usleep(100);
    }
    return 0;
}
static void *drop(void *_) {
    unsigned char *mine = get(MOVED);
    while (!is_over) {
        fill(mine, MOVED, 5);
        usleep(2000);
        madvise(mine + MIB, MIB, MADV_DONTNEED);
        if (!is_whole(mine, 0, MIB, 5) || mine[MIB + 64]) _exit(80);
    }
    return 0;
}
static int child(int round) {
    int status;
    // `kept` is a quarter moved, a quarter unmapped, a quarter emptied, and a quarter as it was.
    unsigned char *elsewhere = mremap(kept, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, get(2 * MIB));
    munmap(kept + 2 * MIB, 2 * MIB);
    madvise(kept + 4 * MIB, 2 * MIB, MADV_DONTNEED);
    pid_t grandchild = fork();
    if (grandchild) {
        waitpid(grandchild, &status, 0);
        if (status) return 81;
    }
    if (!is_whole(elsewhere, 0, 2 * MIB, 1)) return 82;
    for (size_t i = 4 * MIB; i < 6 * MIB; i += PAGE) if (kept[i]) return 83;
    return is_whole(kept, 6 * MIB, KEPT, 1) ? 0 : 84;
}
int main(void) {
    int status;
    kept = get(KEPT), moved = get(MOVED);
    fill(kept, KEPT, 1), fill(moved, MOVED, 3);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, move, 0);
    pthread_create(&threads[1], 0, drop, 0);
    struct pollfd input = {0, POLLIN};
    for (int round = 0; poll(&input, 1, 40) == 0; round++) {
        // Every second fork comes when nothing moves, so that both places of `moved` are checked.
        if (round % 2) pthread_mutex_lock(&lock);
        pid_t pid = fork();
        if (pid == 0) {
            status = child(round);
            if (round % 2 && !status && !is_whole(moved, 0, MOVED, 3)) status = 85;
            _exit(status);
        }
        if (round % 2) pthread_mutex_unlock(&lock);
        waitpid(pid, &status, 0);
        if (status) { printf("child %x\n", status); return 86; }
        if (!is_whole(kept, 0, KEPT, 1)) return 87;
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (!is_whole(moved, 0, MOVED, 3)) return 88;
    puts("unharmed");
    return 0;
}
"#;
    let program = lab.path("changes");
    compile(source, &program, &["-O1", "-pthread"]);
    let server = Server::start(&program, &[]).with_memory(10 << 10);
    for local in ["10%", "30%"] {
        let (output, summary) = lab.borrow(server.pid(), &["--local", local, "--for", "3s"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(summary["deactivations"].as_u64().unwrap() > 100, "{summary}");
    }
    server.must_be_unharmed();
}

#[test]
fn waits_are_not_disturbed() {
    let Some(lab) = lab("waits") else { return };
    let program = lab.path("waits");
    compile(WAITS, &program, &["-O1", "-pthread", "-w"]);
    let server = Server::start(&program, &[]).with_memory(16 << 10);
    for _ in 0..2 {
        let (output, _) = lab.borrow(server.pid(), &["--local", "25%", "--for", "500ms"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    assert_eq!(server.result(), (Some(0), "0 0 0 0 0 0 0 0 0 \n".into()));
}

#[test]
#[ignore = "long: make soak runs it"]
fn whoever_is_killed_the_process_gets_its_memory_back() {
    let Some(lab) = lab("killed") else { return };
    let program = &checks(&lab)[0];
    let server = Server::start(program, &[]).with_memory(12 << 10);
    let before = traces(server.pid());
    for round in 0..8u64 {
        let mut unrack = lab.begin(server.pid());
        // At once: while the agent is put in, the one that the user sees can be killed, and its worker cannot.
        let both = round % 2 == 1;
        if both {
            wait_until("the pager is there", || has_pager(server.pid()));
            // A busy machine needs longer for the rest.
            wait_until("its threads go on", || {
                threads(server.pid()).iter().all(|thread| !status_of(*thread, "State:").starts_with('t'))
            });
        }
        std::thread::sleep(Duration::from_millis(20 + 90 * (round / 2)));
        let workers = common::children(unrack.id());
        let killed: Vec<String> =
            workers.iter().filter(|_| both).chain([&unrack.id()]).map(u32::to_string).collect();
        assert!(Command::new("kill").arg("-9").args(&killed).status().unwrap().success());
        unrack.wait().unwrap();
        wait_until("all is back", || traces(server.pid()) == before);
    }
    let (output, _) = lab.borrow(server.pid(), &["--local", "25%", "--for", "500ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    server.must_be_unharmed();
}

#[test]
fn signals_to_unrack_end_the_loan_and_nothing_else() {
    let Some(lab) = lab("signals") else { return };
    let program = &checks(&lab)[1];
    for signal in ["-INT", "-TERM"] {
        let server = Server::start(program, &[]).with_memory(12 << 10);
        let unrack = lab.begin(server.pid());
        wait_until("the pager is there", || has_pager(server.pid()));
        assert!(Command::new("kill").args([signal, &unrack.id().to_string()]).status().unwrap().success());
        let output = unrack.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("was given back"), "{}", stderr(&output));
        server.must_be_unharmed();
    }
}

#[test]
fn a_process_may_end_or_become_another_meanwhile() {
    let Some(lab) = lab("ends") else { return };
    let program = lab.path("ends");
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_traced(void) {
    char text[4096] = "";
    FILE *file = fopen("/proc/self/status", "r");
    fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return !strstr(text, "TracerPid:\t0");
}
int main(int count, char **words) {
    char *data = malloc(8 << 20);
    memset(data, 7, 8 << 20);
    while (!is_traced()) usleep(1000);
    usleep(500000);
    if (count > 1) execl(words[0], words[0], (char *)0);
    for (int i = 0; i < 500; i++) { usleep(1000); data[i * 20000ul % (8 << 20)]++; }
    return 5;
}
"#;
    compile(source, &program, &["-O1"]);
    for words in [&[][..], &["exec"]] {
        let server = Server::start(&program, words).with_memory(8 << 10);
        let (output, summary) = lab.borrow(server.pid(), &["--local", "25%"]);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(stderr(&output).contains("ended with status 5"), "{}", stderr(&output));
        assert!(summary["processes"].as_u64().unwrap() > words.len() as u64, "{summary}");
        assert_eq!(server.result().0, Some(5));
    }
}

#[test]
fn what_cannot_lend_is_refused() {
    let Some(lab) = lab("refused") else { return };
    let refused = |pid: u32, status: i32, text: &str| {
        let output = lab.unrack(&[&"run", &"--pid", &pid.to_string(), &"--for", &"1s"]);
        assert_eq!(output.status.code(), Some(status), "{text}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{text}: {}", stderr(&output));
    };
    refused(0x3fff_ffff, 2, "no such process");
    refused(std::process::id(), 2, "unrack itself");
    let mut dead = Command::new("true").spawn().unwrap();
    wait_until("it has ended", || status_of(dead.id(), "State:").starts_with('Z'));
    refused(dead.id(), 2, "has ended");
    dead.wait().unwrap();
    let program = &checks(&lab)[0];
    let server = Server::start(program, &[]).with_memory(12 << 10);
    wait_until("it has threads", || threads(server.pid()).len() >= 4);
    refused(threads(server.pid())[1], 2, "is a thread of process");
    let mut unrack = lab.begin(server.pid());
    refused(server.pid(), 3, "is paged by unrack already");
    assert!(Command::new("kill").arg(unrack.id().to_string()).status().unwrap().success());
    unrack.wait().unwrap();
    assert!(Command::new("kill").args(["-STOP", &server.pid().to_string()]).status().unwrap().success());
    wait_until("it has stopped", || status_of(server.pid(), "State:").starts_with('T'));
    refused(server.pid(), 3, "is stopped");
    assert!(Command::new("kill").args(["-CONT", &server.pid().to_string()]).status().unwrap().success());
    server.must_be_unharmed();
    let odd = lab.path("odd");
    let source = r#"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/filter.h>
int main(int count, char **words) {
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (count > 1 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) : syscall(SYS_userfaultfd, 0) < 0) return 1;
    prctl(PR_SET_NAME, "ready");
    return read(0, &all, 1);
}
"#;
    compile(source, &odd, &[]);
    for (words, text) in [(&[][..], "uses userfaultfd itself"), (&["filter"], "filter of system calls")] {
        let server = Server::start(&odd, words);
        wait_until("it is ready", || status_of(server.pid(), "Name:") == "ready");
        refused(server.pid(), 3, text);
        assert_eq!(server.result().0, Some(0));
    }
    for options in [&["--fast"][..], &["--capture", "x"], &["--", "true"]] {
        let own = std::process::id().to_string();
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"run", &"--pid", &own];
        words.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        assert_eq!(lab.unrack(&words).status.code(), Some(2), "{options:?}");
    }
}
