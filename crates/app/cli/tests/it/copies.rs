//! Pages that are copied instead of moved, as on kernels before Linux 6.8. The variable `UNRACK_COPY_PAGES` has this done on every kernel.

use crate::common::{Lab, compile, stderr};
use crate::desk::{Desk, stdout};
use crate::remote::Node;
use serde_json::Value;
use std::process::{Command, Output};

const COPY: (&str, &str) = (unrack_paging::COPY_VARIABLE, "1");

/// Program whose threads write to all pages of its memory in random order, while another one grows memory (`mremap`), drops it (`madvise`),
/// takes its own rights away, and forks. Each checks that all of its stores are there. The argument is the number of steps of each thread.
pub(crate) const WRITES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, PAGES = 1536, WRITERS = 3 };
static int steps;
static unsigned char *data;
static uint32_t counts[WRITERS][PAGES];
static uint64_t next(uint64_t *seed) { *seed ^= *seed << 13; *seed ^= *seed >> 7; *seed ^= *seed << 17; return *seed; }
static volatile uint32_t *own(int writer, int page) { return (uint32_t *)(data + page * PAGE + 256 * writer); }
static void fail(const char *why) { write(2, why, strlen(why)); _exit(70); }
static void *writes(void *which) {
    int writer = (intptr_t)which;
    uint64_t seed = 88172645463325252u + writer;
    for (int step = 0; step < steps; step++) {
        int page = next(&seed) % PAGES;
        if (*own(writer, page) != counts[writer][page]) fail("a store was lost\n");
        *own(writer, page) = ++counts[writer][page];
    }
    return 0;
}
static void grows(void) {
    size_t len = 64 * PAGE;
    unsigned char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t n = 0; n < len; n += PAGE) at[n] = n / PAGE + 1;
    for (int step = 0; step < 8; step++) {
        unsigned char *moved = mremap(at, len, 2 * len, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) fail("mremap failed\n");
        for (size_t n = 0; n < len; n += PAGE) if (moved[n] != (unsigned char)(n / PAGE + 1)) fail("moved memory has changed\n");
        for (size_t n = len; n < 2 * len; n += PAGE) moved[n] = n / PAGE + 1;
        at = mremap(moved, 2 * len, len, MREMAP_MAYMOVE);
    }
    munmap(at, len);
}
static void drops(void) {
    size_t len = 256 * PAGE;
    unsigned char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int step = 1; step < 4 + steps / 3000; step++) {
        size_t half = step % 2 * len / 2;
        for (size_t n = 0; n < len; n += PAGE) at[n] = step;
        if (madvise(at + half, len / 2, MADV_DONTNEED)) fail("madvise failed\n");
        mprotect(at, len, PROT_READ);
        for (size_t n = 0; n < len; n += PAGE) if (at[n] != (n / (len / 2) == half / (len / 2) ? 0 : step)) fail("dropped memory is wrong\n");
        mprotect(at, len, PROT_READ | PROT_WRITE);
    }
    munmap(at, len);
}
int main(int count, char **words) {
    pthread_t threads[WRITERS];
    steps = atoi(words[1]);
    data = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (intptr_t n = 0; n < WRITERS; n++) pthread_create(&threads[n], 0, writes, (void *)n);
    for (int round = 0; round < 4; round++) {
        grows();
        drops();
        int status;
        pid_t child = fork();
        if (child == 0) {
            uint32_t sum = 0;
            for (int page = 0; page < PAGES; page++) { (*own(WRITERS, page))++; sum += *own(WRITERS, page); }
            _exit(sum == PAGES ? 0 : 71);
        }
        if (waitpid(child, &status, 0) != child || status) fail("the child's memory is wrong\n");
    }
    for (int n = 0; n < WRITERS; n++) pthread_join(threads[n], 0);
    for (int n = 0; n < WRITERS; n++) for (int page = 0; page < PAGES; page++) if (*own(n, page) != counts[n][page]) fail("a store was lost\n");
    write(1, "whole\n", 6);
    return 0;
}
"#;

fn command(lab: &Lab, options: &[&str], program: &[&str]) -> (Output, Value) {
    let json = lab.path("run.json");
    let mut command = lab.command(&[&"run", &"--json", &json]);
    command.args(options).arg("--").args(program).env("UNRACK_PROC", lab.proc(0)).env(COPY.0, COPY.1);
    let output = command.output().unwrap();
    let text = std::fs::read(&json).unwrap_or_else(|_| panic!("no summary: {}", stderr(&output)));
    (output, serde_json::from_slice(&text).unwrap())
}

#[test]
fn no_store_of_a_program_is_lost() {
    let Some(lab) = Lab::paging("copies") else { return };
    let builds: &[(&str, &[&str])] = match cfg!(target_arch = "x86_64") {
        true => &[("dynamic", &[]), ("static", &["-static"])],
        false => &[("dynamic", &[])],
    };
    for (name, options) in builds {
        let program = lab.path(name);
        compile(WRITES, &program, &[&["-O1", "-pthread"], *options].concat());
        for more in [&[][..], &["--read-ahead", "8"]] {
            let options = [&["--local", "2MiB"], more].concat();
            let (output, summary) = command(&lab, &options, &[program.to_str().unwrap(), "100000"]);
            let said = format!("{name} {more:?}: {:?} {}", output.status, stderr(&output));
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "whole\n"), "{said}");
            let came = summary["fetches"].as_u64().unwrap() + summary["ahead"].as_u64().unwrap();
            assert!(came > 1000, "{name}: {summary}");
            assert!(!summary["warnings"].to_string().contains("not-paged"), "{name}: {summary}");
        }
    }
}

/// Program that tries to begin transfers past the page tables.
const BYPASSES: &str = r#"
import ctypes, errno, fcntl, os, sys
path = sys.argv[1]
def tried(call):
    try:
        return call() and 0
    except OSError as why:
        return errno.errorcode[why.errno]
plain = os.open(path, os.O_RDWR | os.O_CREAT)
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(425, 8, 0)
print(tried(lambda: os.open(path, os.O_RDONLY | os.O_DIRECT)),
      tried(lambda: fcntl.fcntl(plain, fcntl.F_SETFL, os.O_DIRECT)),
      tried(lambda: fcntl.fcntl(plain, fcntl.F_SETFL, os.O_APPEND)),
      errno.errorcode[ctypes.get_errno()])
"#;

#[test]
fn transfers_past_the_page_tables_are_refused_and_only_then() {
    let Some(lab) = Lab::paging("copies-bypass") else { return };
    let file = lab.path("file");
    let program = ["python3", "-c", BYPASSES, file.to_str().unwrap()];
    let (output, _) = command(&lab, &["--local", "50%"], &program);
    assert_eq!(stdout(&output), "EINVAL EINVAL 0 ENOSYS\n", "{}", stderr(&output));
    if unrack_paging::lost_on_this_kernel().is_none() {
        let native = Command::new("python3").args(&program[1..]).output().unwrap();
        let (output, _) = lab.run(&["--local", "50%"], &program);
        assert_eq!(stdout(&output), stdout(&native), "{}", stderr(&output));
    }
}

#[test]
fn what_needs_moves_is_refused_and_the_doctor_says_what_is_lost() {
    if Lab::paging("copies-refused").is_none() {
        return;
    }
    let desk = Desk::new("copies-refused");
    let unrack = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(words).env(COPY.0, COPY.1).current_dir(desk.path("")).output().unwrap()
    };
    let mut idle = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = idle.id().to_string();
    for words in [
        &["run", "--fast", "--local", "50%", "--", "/bin/true"][..],
        &["run", "--pid", &pid, "--local", "50%"],
    ] {
        let output = unrack(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains(words[1]) && said.contains("Linux 6.8 or newer"), "{words:?}: {said}");
    }
    idle.kill().unwrap();
    idle.wait().unwrap();
    let found: Value =
        serde_json::from_str(&stdout(&unrack(&["doctor", "run", "compare", "--json"]))).unwrap();
    let answer =
        |with: &str| found["verbs"].as_array().unwrap().iter().find(|one| one["with"] == with).unwrap();
    let note = answer("")["note"].as_str().unwrap();
    assert!(note.contains("copied") && note.contains("O_DIRECT") && note.contains("io_uring"), "{note}");
    for with in ["--fast", "--pid"] {
        assert!(answer(with)["lacks"].as_str().unwrap().contains("UFFDIO_MOVE"), "{found}");
    }
}

#[test]
fn pages_are_copied_to_and_from_the_landings_of_a_memory_node() {
    let Some(lab) = Lab::paging("copies-node") else { return };
    let program = lab.path("writes");
    compile(WRITES, &program, &["-O1", "-pthread"]);
    let socket = lab.path("node.sock");
    for listens in [["--listen", "127.0.0.1:0"], ["--shm", socket.to_str().unwrap()]] {
        let node = Node::serve(&[&listens[..], &["--capacity", "128MiB"]].concat());
        let options = ["--local", "2MiB", "--remote", node.at.as_str()];
        let (output, summary) = command(&lab, &options, &[program.to_str().unwrap(), "60000"]);
        assert_eq!(stdout(&output), "whole\n", "{listens:?}: {}", stderr(&output));
        assert!(summary["fetches"].as_u64().unwrap() > 1000, "{listens:?}: {summary}");
    }
}
