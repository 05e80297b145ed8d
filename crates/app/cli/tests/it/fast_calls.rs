//! Fast mode's system calls: each finds the memory that it uses, whatever else is taken meanwhile.

use crate::common;

use common::{Lab, compile, stderr};

/// Program that reads into mappings of every length, whose pages have gone, beside others that cannot be used.
const ENDS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 50, CHURN = 2048, PIPE = 64 };

int main(void) {
    int ends[2], wrong = 0;
    static char from[MOST * PAGE];
    char *churn = mmap(0, CHURN * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = mmap(0, MOST * MOST * 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pipe2(ends, O_NONBLOCK) || fcntl(ends[0], F_SETPIPE_SZ, PIPE * PAGE) < 0) return 1;
    memset(from, 7, sizeof from);
    for (int pages = 1; pages < MOST; pages++) {
        char *to = place + pages * 2 * MOST * PAGE;
        mprotect(to, pages * PAGE, PROT_READ | PROT_WRITE);
        memset(to, 1, pages * PAGE);
    }
    for (int round = 0; round < 3; round++) {
        for (int n = 0; n < 5 * CHURN; n++) churn[n % CHURN * PAGE]++;
        for (int pages = 1; pages < MOST; pages++) {
            char *to = place + pages * 2 * MOST * PAGE;
            madvise(to, pages * PAGE, MADV_DONTNEED);
            for (int first = 0; first < pages; first += 7 + round) {
                int len = (pages - first) * PAGE;
                wrong += write(ends[1], from, len) != len;
                wrong += read(ends[0], to + first * PAGE, len) != len;
                wrong += memcmp(to + first * PAGE, from, len) != 0;
                while (read(ends[0], to, PAGE) > 0) wrong++;
                madvise(to, pages * PAGE, MADV_DONTNEED);
                // A thread that goes on where it was is given several pages.
                for (int n = 0; n < first; n++) to[n * PAGE] = 1;
            }
        }
    }
    printf("%d\n", wrong);
    return 0;
}
"#;

#[test]
fn calls_find_new_memory_up_to_the_end_of_its_mapping() {
    let Some(lab) = Lab::fast("fast-ends") else { return };
    let program = lab.path("ends");
    compile(ENDS, &program, &["-O1"]);
    for local in ["2MiB", "5MiB"] {
        let (output, summary) =
            lab.run(&["--fast", "--local", local, "--latency", "0ns"], &[program.to_str().unwrap()]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{local}: {}", stderr(&output));
        assert!(summary["fetches"].as_u64().unwrap() > 10_000, "{summary}");
    }
}

/// Program whose threads wait in reads of pipes into large buffers, while others churn memory: with a handler that
/// interrupts them, or has them go on, or children that share their memory.
const PIPES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 3000, LEN = 300000, ROUNDS = 30, PIPES = 3, PIECE = 5003 };
static char *memory;
static int ends[PIPES][2];
static volatile int stop;

static void on_alarm(int signal) {
    char room[2 * PAGE];
    memset(room, signal, sizeof room);
}

static void *churn(void *which) {
    unsigned state = (unsigned)(size_t)which;
    while (!stop) {
        state = state * 1103515245 + 12345;
        __atomic_fetch_add(&memory[(size_t)(state >> 8) % PAGES * PAGE], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static long moved(ssize_t len) {
    if (len >= 0) return len;
    if (errno != EINTR) perror("pipe"), exit(1);
    return 0;
}

static void *read_all(void *which) {
    long n = (long)which, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *to = malloc(LEN);
        for (int got = 0; got < LEN;) got += moved(read(ends[n][0], to + got, LEN - got));
        for (int at = 0; at < LEN; at++) wrong += to[at] != (char)(n + round + at / 1000);
        free(to);
    }
    return (void *)wrong;
}

static void *write_all(void *which) {
    long n = (long)which;
    for (int round = 0; round < ROUNDS; round++) {
        char *from = malloc(LEN);
        for (int at = 0; at < LEN; at++) from[at] = (char)(n + round + at / 1000);
        for (int put = 0; put < LEN;) {
            if (put % 7 == 3) usleep(1000);
            put += moved(write(ends[n][1], from + put, LEN - put < PIECE ? LEN - put : PIECE));
        }
        free(from);
    }
    return 0;
}

int main(int count, char **words) {
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char *how = count > 1 ? words[1] : "";
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = strcmp(how, "restart") ? 0 : SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    if (!strcmp(how, "restart") || !strcmp(how, "interrupt")) ualarm(1000, 1000);
    pthread_t churns[2], threads[2 * PIPES];
    for (size_t n = 0; n < 2; n++) pthread_create(&churns[n], 0, churn, (void *)(n + 1));
    for (size_t n = 0; n < 2 * PIPES; n++) {
        if (n < PIPES && pipe(ends[n])) return 1;
        pthread_create(&threads[n], 0, n < PIPES ? read_all : write_all, (void *)(n % PIPES));
    }
    for (int n = 0; !strcmp(how, "fork") && n < 30; n++) {
        int child = fork();
        if (!child) usleep(10000), _exit(0);
        waitpid(child, 0, 0);
    }
    long wrong = 0;
    for (int n = 0; n < 2 * PIPES; n++) {
        void *result;
        pthread_join(threads[n], &result);
        wrong += (long)result;
    }
    stop = 1;
    for (int n = 0; n < 2; n++) pthread_join(churns[n], 0);
    printf("%ld\n", wrong);
    return 0;
}
"#;

#[test]
fn calls_that_wait_keep_their_memory() {
    let Some(lab) = Lab::fast("fast-pipes") else { return };
    let program = lab.path("pipes");
    compile(PIPES, &program, &["-O1", "-pthread"]);
    for (how, local) in [("", "1MiB"), ("interrupt", "2MiB"), ("restart", "1MiB"), ("fork", "3MiB")] {
        let command = [program.to_str().unwrap(), how];
        let (output, summary) = lab.run(&["--fast", "--local", local, "--latency", "0ns"], &command);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{how}: {}", stderr(&output));
        // What a fork shares stays local while its child lives: on a busy machine for most of the run.
        let least = if how == "fork" { 500 } else { 5_000 };
        assert!(summary["fetches"].as_u64().unwrap() > least, "{how}: {summary}");
    }
}

/// Program whose signals come sooner than the memory of its calls, and whose handlers use other memory, and make calls that
/// are interrupted by another thread's signals. Half of its handlers stand on a stack of their own; some jump out of a call.
const HASTE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

/* Signals end after MOST, many more than on a quiet machine: where other work leaves the calls less than the time between two, none ends. */
enum { PAGE = 4096, PAGES = 1024, OTHERS = 1024, SOME = 40, MOST = 4000 };
static unsigned char *memory, *others;
static const struct itimerval never;
static volatile int alarms, told, jumps, is_over, file;
static sigjmp_buf again;
static pthread_t first;

static void touch(int n) { others[n * 7 % OTHERS * PAGE]++; }

static void on_told(int signal) {
    (void)signal;
    touch(told++);
}

static void on_alarm(int signal) {
    (void)signal;
    touch(alarms++);
    if (alarms == MOST) setitimer(ITIMER_REAL, &never, 0);
    if (alarms % 8 == 0 && pwrite(file, others, SOME * PAGE, PAGES * PAGE) != SOME * PAGE) _exit(9);
    if (jumps > 0) siglongjmp(again, jumps--); // The call's memory is let go.
}

static void *tell(void *none) {
    struct timespec pause = {0, 3000000};
    while (!is_over && told < MOST) nanosleep(&pause, 0), pthread_kill(first, SIGUSR1);
    return none;
}

int main(int argc, char **argv) {
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, tells = {.sa_handler = on_told, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 2000}, {0, 2000}};
    if (argc > 2) {
        stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
        sigaltstack(&stack, 0);
        alarm.sa_flags |= SA_ONSTACK;
    }
    first = pthread_self();
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    others = mmap(0, OTHERS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int n = 0; n < PAGES; n++) memset(memory + n * PAGE, n % 251 + 1, PAGE);
    memset(others, 1, OTHERS * PAGE);
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    sigaction(SIGALRM, &alarm, 0);
    sigaction(SIGUSR1, &tells, 0);
    pthread_t teller;
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGALRM);
    sigprocmask(SIG_BLOCK, &mine, 0);
    pthread_create(&teller, 0, tell, 0);
    sigprocmask(SIG_UNBLOCK, &mine, 0);
    setitimer(ITIMER_REAL, &every, 0);
    if (!sigsetjmp(again, 1)) jumps = 3;
    while (jumps > 0) pwrite(file, memory, PAGES * PAGE, 0);
    ssize_t written = pwrite(file, memory, PAGES * PAGE, 0);
    memset(memory, 0, PAGES * PAGE);
    for (int n = 0; n < OTHERS; n++) touch(n);
    ssize_t got = pread(file, memory, PAGES * PAGE, 0);
    setitimer(ITIMER_REAL, &never, 0);
    is_over = 1;
    pthread_join(teller, 0);
    int wrong = 0;
    for (int n = 0; n < PAGES; n++) wrong += memory[n * PAGE] != n % 251 + 1 || memory[n * PAGE + PAGE - 1] != n % 251 + 1;
    printf("%zd %zd %d %d\n", written, got, wrong, jumps);
    return 0;
}
"#;

#[test]
fn calls_are_made_though_signals_come_before_their_memory() {
    let Some(lab) = Lab::fast("fast-haste") else { return };
    let (program, file) = (lab.path("haste"), lab.path("file"));
    compile(HASTE, &program, &["-O1", "-pthread", "-Wl,-z,now"]);
    let command = [program.to_str().unwrap(), file.to_str().unwrap(), "alternate"];
    for words in [&command[..2], &command] {
        for (local, latency) in [("1MiB", "50us"), ("3MiB", "20us"), ("2MiB", "100us")] {
            let (output, summary) = lab.run(&["--fast", "--local", local, "--latency", latency], words);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "4194304 4194304 0 0\n", "{local} {latency}: {}", stderr(&output));
            assert!(summary["fetches"].as_u64().unwrap() > 1000, "{summary}");
        }
    }
}

/// Program whose threads end in handlers that interrupt calls with 1 MiB each, before these are made.
const ENDINGS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, THREADS = 12, CHURN = 2048 };
static char *memory;
static int file;
static int ended;

static void on_told(int signal) {
    (void)signal;
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_exit, 0);
}

static void *writes(void *part) {
    for (;;) pwrite(file, memory + (long)part * PAGES * PAGE, PAGES * PAGE, 0);
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    struct sigaction action = {.sa_handler = on_told};
    sigaction(SIGUSR1, &action, 0);
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    memory = mmap(0, (THREADS * PAGES + CHURN) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, (THREADS * PAGES + CHURN) * PAGE);
    pthread_t threads[THREADS];
    for (long n = 0; n < THREADS; n++) pthread_create(&threads[n], 0, writes, (void *)n);
    for (int n = 0; n < THREADS; n++) {
        usleep(3000);
        pthread_kill(threads[n], SIGUSR1);
    }
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
    char *churn = memory + THREADS * PAGES * PAGE;
    for (int n = 0; n < 6 * CHURN; n++) churn[n % CHURN * PAGE]++;
    printf("%d\n", ended);
    return 0;
}
"#;

#[test]
fn memory_of_threads_that_end_before_their_calls_may_go() {
    let Some(lab) = Lab::fast("fast-endings") else { return };
    let (program, file) = (lab.path("endings"), lab.path("file"));
    compile(ENDINGS, &program, &["-O1", "-pthread"]);
    let words = [program.to_str().unwrap(), file.to_str().unwrap()];
    let (output, summary) = lab.run(&["--fast", "--local", "2MiB", "--latency", "50us"], &words);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "12\n", "{}", stderr(&output));
    // It is kept while the threads live, which is a small part of the run; without an end it is for nearly all of it.
    let second = |key: &str| summary[key].as_f64().unwrap();
    assert!(second("over_limit_s") < 0.6 * second("wall_s"), "{summary}");
}
