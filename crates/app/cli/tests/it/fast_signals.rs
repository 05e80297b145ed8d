//! Signals of programs in fast mode: what a handler sees, and what the program is told, is as without us.

use crate::common;

use common::{Lab, compile, stderr};
use std::process::Command;

/// Program that prints what it sees of its signals, while little of its memory is local.
const SIGNALS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

enum { PAGE = 4096, PAGES = 2048, STACK = 64 << 10 };
static char *memory, *alternate;
static sigjmp_buf again;
static volatile long alarms;

static int is_on(const void *at) { return (char *)at >= alternate && (char *)at < alternate + STACK; }

static void churn(void) {
    for (int n = 0; n < PAGES; n++) memory[n * PAGE + n % PAGE]++;
}

static void show(const char *who, int signal, void *context) {
    char here;
    stack_t stack;
    sigset_t mask;
    sigaltstack(0, &stack);
    sigprocmask(SIG_BLOCK, 0, &mask);
    const ucontext_t *at = context;
    printf("%s %d: on alternate %d, it is %s, blocked %d %d %d, rounding %d, interrupted with %d %d, stack kept %d\n",
        who, signal, is_on(&here), stack.ss_flags & SS_ONSTACK ? "in use" : "not in use",
        sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2), sigismember(&mask, SIGBUS),
        _MM_GET_ROUNDING_MODE() == _MM_ROUND_NEAREST, sigismember(&at->uc_sigmask, SIGHUP), sigismember(&at->uc_sigmask, SIGBUS),
        at->uc_stack.ss_sp == alternate);
}

static void on_second(int signal, siginfo_t *info, void *context) {
    printf("value %d\n", info->si_value.sival_int);
    show("second", signal, context);
}

static void on_first(int signal, siginfo_t *info, void *context) {
    show("first", signal, context);
    printf("sent by us %d\n", info->si_pid == getpid());
    churn();
    union sigval value = {.sival_int = 42};
    sigqueue(getpid(), SIGUSR2, value);
    show("first again", signal, context);
}

static void on_overflow(int signal) {
    char here;
    printf("overflow %d, on alternate %d\n", signal, is_on(&here));
    siglongjmp(again, 1);
}

static void on_alarm(int signal) {
    (void)signal;
    char room[2 * PAGE];
    memset(room, 1, sizeof room);
    alarms += room[PAGE];
}

static void told(int signal) {
    struct sigaction action;
    sigaction(signal, 0, &action);
    printf("told of %d: flags %x, ours %d %d %d\n", signal, (unsigned)action.sa_flags & ~0x04000000u,
        action.sa_sigaction == on_first, action.sa_sigaction == on_second, action.sa_handler == SIG_DFL);
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaddset(&action.sa_mask, SIGTTIN);
    sigaction(signal, &action, 0);
    told(signal);
}

static int deep(int left) {
    volatile char room[3 * PAGE];
    for (int n = 0; n < 3; n++) room[n * PAGE] = (char)(left + n);
    int below = left ? deep(left - 1) : 0;
    for (int n = 0; n < 3; n++) below += room[n * PAGE] == (char)(left + n);
    return below;
}

static int endless(int n) {
    volatile char room[PAGE];
    room[0] = (char)n;
    return endless(n + 1) + room[0];
}

static void *run_deep(void *unused) {
    (void)unused;
    long right = 0;
    for (int n = 0; n < 20; n++) right += deep(500);
    return (void *)right;
}

static void *write_late(void *pipe) {
    usleep(50000);
    for (int n = 0; n < 16; n++) {
        char page[PAGE];
        memset(page, n, PAGE);
        if (write(*(int *)pipe, page, PAGE) != PAGE) return pipe;
    }
    return 0;
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    alternate = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int n = 0; n < 3; n++) churn();
    stack_t stack = {.ss_sp = alternate, .ss_size = STACK};
    printf("alternate %d\n", sigaltstack(&stack, 0));
    set(SIGUSR1, on_first, SA_ONSTACK | SA_RESTART);
    set(SIGUSR2, on_second, SA_RESETHAND);
    set(SIGBUS, on_first, SA_ONSTACK);
    set(SIGSYS, on_second, 0);
    sigset_t some, before;
    sigemptyset(&some);
    sigaddset(&some, SIGHUP);
    sigaddset(&some, SIGBUS);
    sigprocmask(SIG_BLOCK, &some, 0);
    sigprocmask(SIG_BLOCK, 0, &before);
    printf("blocked %d %d\n", sigismember(&before, SIGHUP), sigismember(&before, SIGBUS));
    _MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
    churn();
    kill(getpid(), SIGUSR1);
    printf("rounding kept %d\n", _MM_GET_ROUNDING_MODE() == _MM_ROUND_UP);
    told(SIGUSR2);
    sigprocmask(SIG_SETMASK, 0, &before);
    printf("blocked after %d %d\n", sigismember(&before, SIGHUP), sigismember(&before, SIGBUS));
    sigprocmask(SIG_UNBLOCK, &some, 0);

    struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    for (int n = 0; n < 2; n++) {
        if (!sigsetjmp(again, 1)) printf("%d\n", endless(0));
        churn();
    }

    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    ualarm(1500, 1500);
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, run_deep, 0);
    for (int n = 0; n < 30; n++) churn();
    pthread_join(thread, &result);
    printf("deep %ld\n", (long)result);
    int ends[2];
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, write_late, &ends[1]);
    int wrong = 0;
    for (int n = 0; n < 16; n++) {
        char *to = memory + n * 7 * PAGE + 100;
        int got = 0, len = 0;
        while (got < PAGE && (len = read(ends[0], to + got, PAGE - got)) > 0) got += len;
        for (int at = 0; at < PAGE; at++) wrong += to[at] != n;
    }
    pthread_join(thread, &result);
    ualarm(0, 0);
    printf("read %d %d, alarms %d\n", wrong, result == 0, alarms > 0);
    return 0;
}
"#;

#[test]
fn signals_are_seen_as_without_us() {
    let Some(lab) = Lab::fast("fast-signals") else { return };
    let program = lab.path("signals");
    compile(SIGNALS, &program, &["-O1", "-pthread"]);
    let native = Command::new(&program).output().unwrap();
    assert!(native.status.success(), "{}", stderr(&native));
    for local in ["1MiB", "3MiB"] {
        let (output, summary) = lab.run(&["--fast", "--local", local], &[program.to_str().unwrap()]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(summary["fetches"].as_u64().unwrap() > 10_000, "{summary}");
    }
}

#[test]
fn inherited_masks_are_seen_and_faults_are_handled() {
    let Some(lab) = Lab::fast("fast-masks") else { return };
    let (outer, inner) = (lab.path("outer"), lab.path("inner"));
    let outer_source = "#include <signal.h>\n#include <unistd.h>\n\
        int main(int n, char **words) { sigset_t all; sigfillset(&all); sigprocmask(SIG_SETMASK, &all, 0); \
        (void)n; execv(words[1], words + 1); return 9; }";
    let inner_source = "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { char *all = calloc(4096, 4096); unsigned sum = 0; \
        for (int n = 0; n < 40960; n++) sum += all[n % 4096 * 4096]++; \
        sigset_t mask; sigprocmask(SIG_BLOCK, 0, &mask); \
        printf(\"%d %d %u\\n\", sigismember(&mask, SIGBUS), sigismember(&mask, SIGSYS), sum); return 0; }";
    // Statically linked, it has no pager, and its mask is the kernel's.
    compile(outer_source, &outer, &["-static"]);
    compile(inner_source, &inner, &["-O1"]);
    let script = format!("exec '{}' '{}'", outer.display(), inner.display());
    let command = ["sh", "-c", &script];
    let (output, summary) = lab.run(&["--fast", "--local", "2MiB"], &command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 1 184320\n", "{}", stderr(&output));
    assert!(summary["fetches"].as_u64().unwrap() > 10_000, "{summary}");
}
