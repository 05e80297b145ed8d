//! `unrack run --fast`: the same output, and a clear error where that cannot be promised.

use crate::common;

use common::{Lab, compile, stderr};
use std::process::Command;

/// Program with system calls into and out of taken memory, threads, signals, `mremap`, and a bus error of its own.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { PAGES = 3072, PAGE = 4096 };
static unsigned char *memory;
static int alarms;
static sigjmp_buf again;

static unsigned long sum(const unsigned char *from, size_t len) {
    unsigned long total = 17;
    for (size_t i = 0; i < len; i++) total = total * 31 + from[i];
    return total;
}

static void fill(unsigned char *to, size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++) to[i] = (seed += i * 2654435761u) >> 24;
}

static void on_alarm(int signal) {
    (void)signal;
    volatile unsigned char *seen = memory + (alarms * 40999) % (PAGES * PAGE);
    alarms += *seen < 256;
}

static void on_bus(int signal) { siglongjmp(again, signal); }

static void *half(void *which) {
    unsigned char *from = memory + (size_t)which * PAGES / 2 * PAGE;
    unsigned long total = 0;
    for (int pass = 0; pass < 3; pass++) total += sum(from, PAGES / 2 * PAGE);
    return (void *)total;
}

int main(int argc, char **argv) {
    (void)argc;
    memory = malloc(PAGES * PAGE);
    fill(memory, PAGES * PAGE, 1);

    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    ualarm(2000, 2000);
    pthread_t threads[2];
    void *results[2];
    for (size_t n = 0; n < 2; n++) pthread_create(&threads[n], 0, half, (void *)n);
    for (size_t n = 0; n < 2; n++) pthread_join(threads[n], &results[n]);
    printf("threads %lx %lx\n", (long)results[0], (long)results[1]);

    int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, memory, PAGES * PAGE) != PAGES * PAGE) return 2;
    unsigned char *copy = calloc(PAGES, PAGE);
    if (pread(file, copy, PAGES * PAGE, 0) != PAGES * PAGE) return 3;
    printf("file %d\n", memcmp(copy, memory, PAGES * PAGE));

    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    int wrong = 0;
    for (int n = 0; n < 500; n++) {
        struct iovec out[2] = {{memory + n * 6000, 700}, {memory + (PAGES - n - 2) * PAGE + 3800, 900}};
        struct msghdr message = {.msg_iov = out, .msg_iovlen = 2};
        unsigned char *to = copy + n * 5000;
        wrong += sendmsg(pair[0], &message, 0) != 1600 || recv(pair[1], to, 1600, 0) != 1600;
        wrong += memcmp(to, out[0].iov_base, 700) != 0 || memcmp(to + 700, out[1].iov_base, 900) != 0;
    }
    printf("datagrams %d\n", wrong);
    ualarm(0, 0);
    printf("alarms %d\n", alarms > 0);

    unsigned char *map = mmap(0, 512 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(map, 512 * PAGE, 2);
    half(0);
    map = mremap(map, 512 * PAGE, 2048 * PAGE, MREMAP_MAYMOVE);
    madvise(map + 64 * PAGE, 64 * PAGE, MADV_DONTNEED);
    munmap(map + 256 * PAGE, 64 * PAGE);
    printf("remapped %lx %lx\n", sum(map, 256 * PAGE), sum(map + 320 * PAGE, 1000 * PAGE));

    printf("fault %d %s\n", (int)write(1, (void *)64, 5), strerror(errno));
    int small = open(argv[1], O_RDWR | O_TRUNC);
    unsigned char *beyond = mmap(0, PAGE, PROT_READ, MAP_SHARED, small, 0);
    action.sa_handler = on_bus;
    sigaction(SIGBUS, &action, 0);
    int signal = sigsetjmp(again, 1);
    if (!signal) printf("%d", *beyond);
    printf("bus error %d\n", signal == SIGBUS);

    fflush(stdout);
    char *echo[] = {"echo", "a", "child", 0};
    pid_t child;
    if (posix_spawnp(&child, "echo", 0, 0, echo, environ)) return 4;
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    fflush(stdout);

    int gate[2];
    char go = 0;
    if (pipe(gate)) return 5;
    pid_t copy_of_us = fork();
    // In turn, so that the output is always the same.
    if (copy_of_us) go = read(gate[0], &go, 1);
    fill(memory, PAGE * 9, 3 + !copy_of_us);
    printf("%s %lx\n", copy_of_us ? "parent" : "child", sum(memory, PAGES * PAGE));
    fflush(stdout);
    if (!copy_of_us) _exit(write(gate[1], &go, 1) + 6);
    waitpid(copy_of_us, &status, 0);
    printf("child %d, all %lx\n", WEXITSTATUS(status), sum(memory, PAGES * PAGE));
    return 0;
}
"#;

#[test]
fn output_is_the_same_and_faults_were_handled_in_place() {
    let Some(lab) = Lab::fast("fast") else { return };
    let (program, data) = (lab.path("busy"), lab.path("data"));
    compile(BUSY, &program, &["-O1", "-pthread"]);
    let command = [program.to_str().unwrap(), data.to_str().unwrap()];
    let native = Command::new(command[0]).arg(command[1]).output().unwrap();
    assert!(native.status.success(), "{}", stderr(&native));
    let (output, summary) = lab.run(&["--fast", "--local", "4MiB"], &command);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert_eq!(summary["mode"], "fast");
    assert!(summary["fetches"].as_u64().unwrap() > 5000, "{summary}");
    assert_eq!(summary["processes"].as_u64(), Some(3), "{summary}");
}

#[test]
fn every_fetch_is_captured_and_delays_are_waited_for() {
    let Some(lab) = Lab::fast("fast-capture") else { return };
    let (program, data, trace) = (lab.path("busy"), lab.path("data"), lab.path("trace.parquet"));
    compile(BUSY, &program, &["-O1", "-pthread"]);
    let options = ["--fast", "--local", "4MiB", "--latency", "50us", "--capture", trace.to_str().unwrap()];
    let (output, summary) = lab.run(&options, &[program.to_str().unwrap(), data.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (_, rows) = unrack_record::trace::read(&trace).unwrap();
    let of = |kind| rows.iter().filter(|row| row.kind == kind).count() as u64;
    let count = |key: &str| summary[key].as_u64().unwrap();
    assert_eq!(of(unrack_record::trace::Kind::Fetch), count("fetches"));
    assert_eq!(of(unrack_record::trace::Kind::WriteBack), count("write_backs"));
    assert!(count("wait_ns") as f64 > count("fetches") as f64 * 50e3 * 0.95, "{summary}");
}

/// Runs a program that has to end with status 1 and a reason that names `what`.
fn refuses(what: &str, statement: &str) {
    let Some(lab) = Lab::fast("fast-refusal") else { return };
    let program = lab.path("refused");
    let source = format!(
        "#include <unistd.h>\n#include <sys/syscall.h>\n#include <sys/shm.h>\n\
         int main(void) {{ {statement}; write(1, \"went on\", 7); return 0; }}"
    );
    compile(&source, &program, &[]);
    let output = lab.unrack(&[&"run", &"--fast", &"--local=4MiB", &"--", &program]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let said = stderr(&output);
    assert!(said.contains(what) && said.contains("without --fast"), "{said}");
}

#[test]
fn what_cannot_be_kept_correct_is_refused_by_name() {
    refuses("io_uring", "syscall(SYS_io_uring_setup, 8, 0)");
    refuses("shmat", "shmat(shmget(IPC_PRIVATE, 4096, 0600), 0, 0)");
    refuses("process_vm_readv", "syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 0)");
    refuses("system call 999", "syscall(999)");
}
