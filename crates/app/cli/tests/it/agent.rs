//! `unrack run` of programs into which nothing can be preloaded: the agent is put into them.
#![cfg(target_arch = "x86_64")]

use crate::common;

use common::{Lab, compile, stderr, try_compile};
use std::path::{Path, PathBuf};
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

/// Program with threads, forks, programs that it starts, and memory that grows, all of which it reads back.
const WORK: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char *data;
static size_t len = 12 << 20;
static volatile int signals;
static void count(int signal) { signals++; }
static unsigned long walk(unsigned long at, int steps) {
    unsigned long sum = 0;
    while (steps--) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        sum = sum * 31 + data[(at >> 20) % len];
    }
    return sum;
}
static void *run(void *seed) {
    static __thread unsigned long mine;
    mine = (unsigned long)seed;
    for (int i = 0; i < 10; i++) mine = mine * 7 + walk(mine, 300);
    return (void *)mine;
}
int main(void) {
    data = malloc(len);
    for (size_t i = 0; i < len; i++) data[i] = i * 2654435761u >> 13;
    signal(SIGUSR1, count);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[4];
        unsigned long sum = 0;
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, (void *)(i + 10 * round));
        int status;
        if (fork() == 0) {
            unsigned long seen = walk(round, 3000);
            for (size_t i = 0; i < len; i += 4096) data[i] ^= round;
            kill(getpid(), SIGUSR1);
            printf("child %lu %d\n", seen + walk(round, 3000), signals);
            exit(round);
        }
        wait(&status);
        for (int i = 0; i < 4; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (unsigned long)result;
        }
        printf("%d %lu\n", WEXITSTATUS(status), sum);
        fflush(stdout);
        if (system("echo started; exit 3") != 3 << 8) return 1;
        data = realloc(data, len + (1 << 20));
        memset(data + len, round, 1 << 20);
        len += 1 << 20;
    }
    unsigned long sum = 0;
    for (size_t i = 0; i < len; i++) sum = sum * 31 + data[i];
    printf("%lu\n", sum);
}
"#;

/// Starts programs in the way that $1 names.
const STARTER: &str = r#"
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int count, char **words) {
    int status = 0;
    pid_t child = 0;
    if (!strcmp(words[1], "execve")) execve(words[2], words + 2, environ);
    if (!strcmp(words[1], "execl")) execl(words[2], words[2], words[3], (char *)0);
    if (!strcmp(words[1], "execvp")) execvp(words[2], words + 2);
    if (!strcmp(words[1], "vfork") && !(child = vfork())) { execv(words[2], words + 2); _exit(127); }
    if (!strcmp(words[1], "spawn")) posix_spawnp(&child, words[2], 0, 0, words + 2, environ);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
"#;

fn native(command: &[&str]) -> Vec<u8> {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

/// Runs a command with a quarter and a tenth of some 16 MiB, and compares what it prints. Returns the fewest fetches.
fn same(lab: &Lab, command: &[&str]) -> u64 {
    same_at(lab, &["4MiB", "1536KiB"], command)
}

fn same_at(lab: &Lab, locals: &[&str], command: &[&str]) -> u64 {
    let expected = native(command);
    let mut fewest = u64::MAX;
    for local in locals {
        let (output, summary) = lab.run(&["--local", local], command);
        assert!(output.status.success(), "{command:?} at {local}: {}", stderr(&output));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, String::from_utf8_lossy(&expected), "{command:?} at {local}");
        assert!(!summary["warnings"].to_string().contains("not-preloaded"), "{command:?}: {summary}");
        fewest = fewest.min(summary["fetches"].as_u64().unwrap());
    }
    fewest
}

/// Builds a program in all ways for which nothing can be preloaded; `None`, with a message, without musl.
fn musl(lab: &Lab, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
    let at = lab.path(name);
    match try_compile("musl-gcc", source, &at, options) {
        Ok(built) => {
            assert!(built.status.success(), "{}", stderr(&built));
            Some(at)
        }
        Err(why) => {
            skip(TestRequirement::Musl, format!("needs musl-gcc: {why}"));
            None
        }
    }
}

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_static_program_pages_with_its_threads_and_children() {
    let Some(lab) = Lab::paging("static") else { return };
    let program = lab.path("static");
    compile(WORK, &program, &["-O1", "-static", "-pthread"]);
    assert!(same(&lab, &[word(&program)]) > 1000);
}

#[test]
fn a_program_of_another_c_library_pages() {
    let Some(lab) = Lab::paging("musl") else { return };
    for (name, options) in [("dynamic", &["-O1"][..]), ("static", &["-O1", "-static"])] {
        let Some(program) = musl(&lab, name, WORK, options) else { return };
        assert!(same(&lab, &[word(&program)]) > 1000, "{name}");
    }
}

/// Has a dynamic program start one into which nothing can be preloaded.
fn start_from_dynamic(lab: &Lab, program: &Path, ways: &[&str]) {
    let starter = lab.path("starter");
    compile(STARTER, &starter, &[]);
    for way in ways {
        let command = [word(&starter), way, word(program)];
        assert!(same_at(lab, &["4MiB"], &command) > 1000, "{way} {}", program.display());
    }
}

#[test]
fn programs_that_dynamic_ones_start_page() {
    let Some(lab) = Lab::paging("started") else { return };
    let program = lab.path("started");
    compile(WORK, &program, &["-O1", "-static", "-pthread"]);
    start_from_dynamic(&lab, &program, &["execve", "vfork"]);
}

#[test]
#[ignore = "long: make soak runs it"]
fn programs_that_dynamic_ones_start_page_however_they_are_started() {
    let Some(lab) = Lab::paging("started-all") else { return };
    let program = lab.path("started");
    compile(WORK, &program, &["-O1", "-static", "-pthread"]);
    for program in [Some(program), musl(&lab, "musl", WORK, &["-O1"])].into_iter().flatten() {
        start_from_dynamic(&lab, &program, &["execve", "execvp", "vfork", "spawn"]);
        assert!(same_at(&lab, &["1536KiB"], &["sh", "-c", word(&program)]) > 1000);
    }
}

#[test]
fn fast_programs_start_others_into_which_nothing_can_be_preloaded() {
    let Some(lab) = Lab::paging("fast-starter") else { return };
    let (starter, program) = (lab.path("starter"), lab.path("started"));
    compile(STARTER, &starter, &[]);
    compile(WORK, &program, &["-O1", "-static", "-pthread"]);
    let musl = musl(&lab, "musl", WORK, &["-O1"]);
    for program in [Some(program), musl].into_iter().flatten() {
        for way in ["execve", "vfork", "spawn"] {
            let command = [word(&starter), way, word(&program)];
            let (output, summary) = lab.run(&["--fast", "--local", "4MiB"], &command);
            assert!(output.status.success(), "{command:?}: {}", stderr(&output));
            assert_eq!(output.stdout, native(&command), "{command:?}");
            assert!(!summary["warnings"].to_string().contains("not-preloaded"), "{command:?}: {summary}");
            assert!(summary["fetches"].as_u64().unwrap() > 1000, "{command:?}: {summary}");
        }
    }
}

/// A program that starts unnoticed, with threads that wait in the kernel in several ways, gets the agent while it runs.
#[test]
fn a_program_that_runs_already_does_not_notice() {
    let Some(lab) = Lab::paging("running") else { return };
    let (starter, program) = (lab.path("starter"), lab.path("running"));
    compile(STARTER, &starter, &[]);
    let source = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
static int ends[2], silent[2];
static sem_t sem;
static void *reads(void *_) { char b; return (void *)(long)read(ends[0], &b, 1); }
static void *waits(void *_) { return (void *)(long)sem_wait(&sem); }
static void *polls(void *_) { struct pollfd p = {silent[0], POLLIN}; return (void *)(long)poll(&p, 1, 1500); }
static void *sleeps(void *_) {
    struct timespec begin, end, time = {1, 500000000};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int result = nanosleep(&time, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
    return (void *)(long)(result == 0 && ms >= 1500 && ms < 2500);
}
static void *computes(void *_) {
    double x = 1;
    unsigned long n = 0;
    for (struct timespec now, end = {0}; ; n++) {
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 1e-9;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!end.tv_sec) end = (struct timespec){now.tv_sec + 2, now.tv_nsec};
        if (now.tv_sec > end.tv_sec) break;
    }
    return (void *)(long)(x > 1 && n > 0);
}
int main(void) {
    size_t len = 16 << 20;
    unsigned char *data = malloc(len);
    for (size_t i = 0; i < len; i++) data[i] = i * 2654435761u >> 13;
    void *(*all[])(void *) = {reads, waits, polls, sleeps, computes};
    pthread_t threads[5];
    pipe(ends), pipe(silent), sem_init(&sem, 0, 0);
    for (int i = 0; i < 5; i++) pthread_create(&threads[i], 0, all[i], 0);
    unsigned long sum = 0, at = 1;
    time_t end = time(0) + 3;
    while (time(0) < end)
        for (int i = 0; i < 1000; i++) data[(at = at * 6364136223846793005ul + 1) % len] += 0;
    for (size_t i = 0; i < len; i++) sum = sum * 31 + data[i];
    write(ends[1], "x", 1), sem_post(&sem);
    for (int i = 0; i < 5; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%ld ", (long)result);
    }
    printf("%lu\n", sum);
}
"#;
    compile(source, &program, &["-O1", "-static", "-pthread"]);
    assert!(same(&lab, &[word(&starter), "execl", word(&program)]) > 100);
}

#[test]
#[ignore = "long: make soak runs it"]
fn sanitizers_find_what_they_find_natively() {
    let Some(lab) = Lab::paging("sanitizers") else { return };
    let source = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    size_t len = 8 << 20;
    unsigned char *data = malloc(len);
    unsigned long at = 1, sum = 0;
    memset(data, 7, len);
    // So that pages have gone before the rest, which takes milliseconds.
    usleep(100000);
    for (int i = 0; i < 20000; i++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        data[(at >> 20) % len] += i;
        sum = sum * 31 + data[(at >> 30) % len];
    }
    printf("%lu\n", sum);
    if (count > 1) data = 0, at = 0;
    free(data);
    return 0;
}
"#;
    for kind in ["address", "leak", "thread", "undefined"] {
        let program = lab.path(kind);
        let options = ["-O0", "-g", &format!("-fsanitize={kind}")];
        let built = try_compile("cc", source, &program, &options).unwrap();
        if !built.status.success() {
            skip(TestRequirement::Sanitizers, stderr(&built));
            continue;
        }
        assert!(same(&lab, &[word(&program)]) > 100, "{kind}");
        let natively = Command::new(&program).arg("leak").output().unwrap();
        let (output, _) = lab.run(&["--local", "4MiB"], &[word(&program), "leak"]);
        assert_eq!(output.status.code(), natively.status.code(), "{kind}: {}", stderr(&output));
        let leaks = |output: &std::process::Output| stderr(output).matches("Direct leak of").count();
        assert_eq!(leaks(&output), leaks(&natively), "{kind}: {}", stderr(&output));
    }
}

#[test]
fn without_permission_to_trace_such_a_program_is_refused() {
    let Some(lab) = Lab::paging("untraced") else { return };
    let (program, forbid) = (lab.path("static"), lab.path("forbid"));
    compile("int main(void) { return 0; }", &program, &["-static"]);
    let source = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    execvp(words[1], words + 1);
    return 78;
}
"#;
    compile(source, &forbid, &[]);
    let mut command = Command::new(&forbid);
    command.args([env!("CARGO_BIN_EXE_unrack"), "run", "--local", "1MiB", "--"]).arg(&program);
    command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot be traced"), "{}", stderr(&output));
}
