//! Programs under `unrack run` that give up rights, and then fork: as each daemon does that starts as root.

use crate::common;

use common::{Lab, compile, stderr};
use std::path::Path;
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

/// Program that gives up what its first word names. Its child, and the child of that, check what was in memory before; given a second
/// word, each waits for its pager first.
const GIVES_UP: &str = r#"
#define _GNU_SOURCE
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { LEN = 6 << 20 };
static unsigned long *data;
static unsigned long *get(void) { return mmap(0, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void fill(unsigned long *at) { for (size_t i = 0; i < LEN / 8; i++) at[i] = i * 2654435761u; }
static int is_whole(unsigned long *at) { for (size_t i = 0; i < LEN / 8; i++) if (at[i] != i * 2654435761u) return 0; return 1; }
static int churn(void) { unsigned long *other = get(); fill(other); int whole = is_whole(other); munmap(other, LEN); return whole; }
static void *end(void *_) { return 0; }
static void *sleep_on(void *_) { for (;;) pause(); }
/* All that is not listed ends the process: what a pager would need is not, nor are `sched_yield` and `openat`. */
static int filter(unsigned flags) {
    static const int allowed[] = {SYS_read, SYS_write, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_brk, SYS_exit, SYS_exit_group,
        SYS_futex, SYS_fork, SYS_clone, SYS_clone3, SYS_wait4, SYS_set_robust_list, SYS_rseq, SYS_rt_sigprocmask, SYS_gettid,
        SYS_pause, SYS_madvise, SYS_set_tid_address, SYS_getpid};
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int n = 1;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {n, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (flags == 99) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
static int give_up(const char *what) {
    struct rlimit files = {3, 3}, threads = {0, 0}, space = {400 << 20, 400 << 20}, seen;
    pthread_t thread;
    if (!strcmp(what, "user")) return setgroups(0, 0) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
    if (!strcmp(what, "root")) return chroot("/sys") || chdir("/");
    if (!strcmp(what, "both")) return chroot("/sys") || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534);
    if (!strcmp(what, "files")) return setrlimit(RLIMIT_NOFILE, &files);
    if (!strcmp(what, "all files")) { for (int i = 3; i < 2000; i++) close(i); return 0; }
    if (!strcmp(what, "space")) return setrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_AS, &seen) || seen.rlim_cur != space.rlim_cur;
    if (!strcmp(what, "prctl")) return filter(99);
    if (!strcmp(what, "seccomp")) return filter(0);
    if (!strcmp(what, "tsync")) return filter(SECCOMP_FILTER_FLAG_TSYNC);
    if (!strcmp(what, "tsync threads")) return pthread_create(&thread, 0, sleep_on, 0) || filter(SECCOMP_FILTER_FLAG_TSYNC);
    return 1;
}
/* Waits until some of the memory is remote, a minute at most: a child may end before its pager, which starts beside it, has begun. */
static void settle(int waits) {
    static unsigned char is_here[LEN / 4096];
    for (int n = 0; waits && n < 6000; n++) {
        if (!mincore(data, LEN, is_here) && memchr(is_here, 0, sizeof is_here)) return;
        usleep(10000);
    }
}
int main(int count, char **words) {
    int status = 0;
    data = get();
    fill(data);
    churn();
    if (give_up(words[1])) return 60;
    if (!churn() || !is_whole(data)) return 61;
    pid_t child = fork();
    if (child == 0) {
        settle(count > 2);
        if (!churn() || !is_whole(data)) _exit(62);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            settle(count > 2);
            _exit(is_whole(data) && churn() ? 0 : 63);
        }
        if (wait4(grandchild, &status, 0, 0) != grandchild) _exit(64);
        _exit(status ? 65 : 0);
    }
    if (wait4(child, &status, 0, 0) != child) return 66;
    if (status) { char text[40]; write(1, text, sprintf(text, "child %x\n", status)); return 67; }
    if (!is_whole(data)) return 68;
    write(1, "whole\n", 6);
    return 0;
}
"#;

/// Runs it, and returns its summary.
fn run(lab: &Lab, program: &Path, options: &[&str], what: &str) -> serde_json::Value {
    run_with(lab, program, options, &[what])
}

fn run_with(lab: &Lab, program: &Path, options: &[&str], words: &[&str]) -> serde_json::Value {
    let options = [&["--local", "2MiB"], options].concat();
    let command = [&[program.to_str().unwrap()], words].concat();
    let (output, summary) = lab.run(&options, &command);
    let said = format!("{words:?} {options:?}: {:?} {}", output.status, stderr(&output));
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"whole\n"[..]), "{said}");
    summary
}

fn warns(summary: &serde_json::Value, key: &str) -> bool {
    summary["warnings"].as_array().unwrap().iter().any(|warning| warning["key"] == key)
}

/// Returns whether this kernel has handles of threads, by which a fork carries descriptors (Linux 6.9).
fn carries() -> bool {
    let release = Command::new("uname").arg("-r").output().unwrap().stdout;
    let release = String::from_utf8(release).unwrap();
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(9))
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t")
}

#[test]
fn children_after_rights_were_given_up_go_on_and_are_paged_where_that_can_be() {
    let Some(lab) = Lab::paging("given-up") else { return };
    if !is_root() {
        return skip(TestRequirement::Root, "only root has rights to give up");
    }
    let program = lab.path("gives-up");
    compile(GIVES_UP, &program, &["-O1", "-pthread"]);
    for options in [&[][..], &["--fast"]] {
        for what in ["user", "root", "both", "all files"] {
            // Where children cannot be paged, they would wait in vain.
            let words: &[&str] = if carries() { &[what, "wait"] } else { &[what] };
            let summary = run_with(&lab, &program, options, words);
            let is_paged = summary["processes"] == 3;
            assert!(is_paged != warns(&summary, "not-paged"), "{what} {options:?}: {summary}");
            assert!(is_paged || !carries(), "{what} {options:?}: {summary}");
        }
        // Three descriptors are too few for any pager.
        let summary = run(&lab, &program, options, "files");
        assert!(warns(&summary, "not-paged"), "{options:?}: {summary}");
    }
}

#[test]
fn children_of_a_static_program_go_on_after_rights_were_given_up() {
    let Some(lab) = Lab::paging("given-up-static") else { return };
    if !is_root() || !cfg!(target_arch = "x86_64") {
        return skip(TestRequirement::Root, "only root has rights to give up");
    }
    let program = lab.path("static");
    compile(GIVES_UP, &program, &["-O1", "-pthread", "-static"]);
    for what in ["user", "root", "files"] {
        run(&lab, &program, &[], what);
    }
}

#[test]
fn a_filter_of_system_calls_ends_nobody_and_one_thread_stays_paged() {
    let Some(lab) = Lab::paging("filters") else { return };
    let program = lab.path("filters");
    compile(GIVES_UP, &program, &["-O1", "-pthread"]);
    for what in ["prctl", "seccomp", "tsync"] {
        let summary = run(&lab, &program, &[], what);
        // Its children have none, and the program itself goes on with its own.
        assert!(warns(&summary, "not-paged"), "{what}: {summary}");
        assert_eq!(summary["processes"], 1, "{what}: {summary}");
    }
    let summary = run(&lab, &program, &[], "tsync threads");
    assert!(summary["warnings"].to_string().contains("system calls are filtered"), "{summary}");
    if cfg!(target_arch = "x86_64") {
        let program = lab.path("static");
        compile(GIVES_UP, &program, &["-O1", "-pthread", "-static"]);
        for what in ["prctl", "tsync", "tsync threads"] {
            let summary = run(&lab, &program, &[], what);
            assert!(warns(&summary, "not-paged"), "{what}: {summary}");
        }
    }
}

/// Program that filters its system calls and becomes another one, as launchers of sandboxes do.
const LAUNCHES: &str = r#"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    execv(words[1], words + 1);
    return 70;
}
"#;

#[test]
fn a_program_that_begins_under_a_filter_goes_on_with_all_memory_local() {
    let Some(lab) = Lab::paging("launched") else { return };
    let launcher = lab.path("launches");
    compile(LAUNCHES, &launcher, &[]);
    for (name, options) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let program = lab.path(name);
        compile("#include <stdio.h>\nint main(void) { puts(\"whole\"); return 0; }", &program, options);
        let command = [launcher.to_str().unwrap(), program.to_str().unwrap()];
        let (output, _) = lab.run(&["--local", "2MiB"], &command);
        let said = format!("{name}: {:?} {}", output.status, stderr(&output));
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"whole\n"[..]), "{said}");
    }
}

#[test]
fn a_program_may_limit_its_own_address_space() {
    let Some(lab) = Lab::paging("space") else { return };
    let program = lab.path("space");
    compile(GIVES_UP, &program, &["-O1", "-pthread"]);
    let summary = run(&lab, &program, &[], "space");
    assert_eq!(summary["processes"], 3, "{summary}");
    let (output, _) =
        lab.run(&["--local", "1MiB"], &["sh", "-c", "ulimit -v 400000; ulimit -v; exec cat /dev/null"]);
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(0), &b"400000\n"[..]),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_run_in_which_a_child_had_to_be_ended_does_not_succeed() {
    let Some(lab) = Lab::paging("ended-child") else { return };
    let source = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    int status;
    if (fork() == 0) return syscall(SYS_userfaultfd, 0);
    wait(&status);
    if (count > 1) _exit(0);
    exit(0);
}
"#;
    let program = lab.path("ended-child");
    compile(source, &program, &[]);
    for words in [&[][..], &["_exit"]] {
        let command = [&[program.to_str().unwrap()], words].concat();
        let words: Vec<&dyn AsRef<std::ffi::OsStr>> =
            [&"run" as &dyn AsRef<std::ffi::OsStr>, &"--local=1MiB", &"--"]
                .into_iter()
                .chain(command.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>))
                .collect();
        let output = lab.unrack(&words);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("uses userfaultfd itself"), "{}", stderr(&output));
    }
}
