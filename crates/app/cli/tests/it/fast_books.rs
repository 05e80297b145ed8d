//! Fast mode's books: it fetches as often as blocking mode does, and makes progress however little is local.

use crate::common;

use common::{Lab, compile, stderr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Program that touches memory in a fixed random order, grows while it runs, and maps far more than it touches.
const TOUCHES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **words) {
    size_t pages = atoi(words[1]), far = 4ul << 30;
    unsigned state = argc, sum = 0;
    char *small[64] = {0};
    char *sparse = mmap(0, far, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *large = malloc(pages * 4096);
    for (size_t n = 0; n < pages * 20; n++) {
        state = state * 1103515245 + 12345;
        // Three in four accesses are to a fourth of the pages.
        size_t page = (state >> 8) % pages;
        if (state >> 30) page /= 4;
        sum += large[page * 4096 + page % 64 * 64]++;
        if (n % 997 == 0) {
            char **one = &small[n / 997 % 64];
            free(*one);
            *one = malloc(20000);
            for (int at = 0; at < 20000; at += 4096) (*one)[at] = (char)n;
        }
        if (n % 64 == 0) sum += sparse[(state * 2654435761ul) % far / 4096 * 4096]++;
    }
    printf("%u\n", sum);
    return 0;
}
"#;

/// Maximum by which the numbers of fetches may differ. Which page is the oldest depends on when ticks come: runs of either mode scatter by
/// 7 %, around two values rather than one.
const DIFFERENCE: f64 = 0.05;
/// Maximum number of runs of each mode until their medians agree.
const RUNS: usize = 15;

#[test]
#[ignore = "half a minute of an idle machine: make soak"]
fn both_modes_fetch_equally_often() {
    let Some(lab) = Lab::fast("fast-books") else { return };
    let program = lab.path("touches");
    compile(TOUCHES, &program, &["-O1"]);
    for (pages, local) in [("4096", "4MiB"), ("4096", "2MiB"), ("2500", "1100KiB")] {
        let fetches = |options: &[&str]| {
            let options = [options, &["--local", local, "--latency", "0ns"]].concat();
            let (output, summary) = lab.run(&options, &[program.to_str().unwrap(), pages]);
            assert!(output.status.success(), "{}", stderr(&output));
            summary["fetches"].as_f64().unwrap()
        };
        let (mut blocking, mut fast) = (Vec::new(), Vec::new());
        loop {
            blocking.push(fetches(&[]));
            fast.push(fetches(&["--fast"]));
            if blocking.len() >= 3 && blocking.len() % 2 == 1 {
                let (one, other) = (median(&mut blocking), median(&mut fast));
                assert!(one > 5_000.0, "{blocking:?}");
                if (other - one).abs() / one < DIFFERENCE {
                    break;
                }
                assert!(
                    blocking.len() < RUNS,
                    "{pages} pages, {local}: {fast:?}, in blocking mode {blocking:?}"
                );
            }
        }
    }
}

/// Returns the middle value of an odd number of them.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Program whose system calls need more pages at once than may be local.
const LARGE_CALLS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LEN = 8 << 20, PARTS = 512 };

int main(int argc, char **words) {
    (void)argc;
    char *from = malloc(LEN), *to = malloc(LEN);
    for (int n = 0; n < LEN; n++) from[n] = (char)(n * 31 >> 7);
    int file = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600), wrong = 0;
    for (int round = 0; round < 3; round++) {
        wrong += pwrite(file, from, LEN, 0) != LEN;
        wrong += pread(file, to, LEN, 0) != LEN;
        wrong += memcmp(from, to, LEN) != 0;
        struct iovec parts[PARTS];
        for (int n = 0; n < PARTS; n++) parts[n] = (struct iovec){to + (PARTS - 1 - n) * 16384 + 5000, 100};
        wrong += preadv(file, parts, PARTS, 0) != PARTS * 100;
        for (int n = 0; n < PARTS; n++) wrong += memcmp(parts[n].iov_base, from + n * 100, 100) != 0;
    }
    printf("%d\n", wrong);
    return 0;
}
"#;

#[test]
fn a_call_may_need_more_pages_than_may_be_local() {
    let Some(lab) = Lab::fast("fast-large-calls") else { return };
    let (program, data) = (lab.path("calls"), lab.path("data"));
    compile(LARGE_CALLS, &program, &["-O1"]);
    for local in ["1MiB", "3MiB"] {
        let command = [program.to_str().unwrap(), data.to_str().unwrap()];
        let (output, _) = lab.run(&["--fast", "--local", local, "--latency", "0ns"], &command);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{local}: {}", stderr(&output));
    }
}

/// Many threads that churn memory, of which each needs what the others have.
const THREADS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 12, PAGES = 4096 };
static char *memory;

static void *churn(void *which) {
    unsigned state = (unsigned)(size_t)which, rounds = state & 1 ? 20000 : 10000;
    if (state > 100) rounds = -1;
    for (unsigned n = 0; n < rounds; n++) {
        state = state * 1103515245 + 12345;
        __atomic_fetch_add(&memory[(size_t)(state >> 8) % PAGES * 4096], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int main(int argc, char **words) {
    (void)words;
    memory = calloc(PAGES, 4096);
    // All that follows takes 4 ms natively, and the pager needs some to find new memory.
    for (int n = 0; n < PAGES; n++) memory[n * 4096] = 0;
    usleep(200000);
    pthread_t threads[THREADS];
    for (size_t n = 0; n < THREADS; n++) pthread_create(&threads[n], 0, churn, (void *)(n + (argc > 1) * 1000));
    if (argc > 1) puts("running"), fflush(stdout);
    if (argc > 2) raise(SIGSTOP);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
    unsigned sum = 0;
    for (int n = 0; n < PAGES; n++) sum += (unsigned char)memory[n * 4096];
    printf("%u\n", sum);
    return 0;
}
"#;

#[test]
fn more_threads_than_cores_share_a_few_pages() {
    let Some(lab) = Lab::fast("fast-threads") else { return };
    let program = lab.path("threads");
    compile(THREADS, &program, &["-O1", "-pthread"]);
    for local in ["1MiB", "3MiB"] {
        let (output, summary) =
            lab.run(&["--fast", "--local", local, "--latency", "0ns"], &[program.to_str().unwrap()]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "180000\n", "{local}: {}", stderr(&output));
        assert!(summary["fetches"].as_u64().unwrap() > 10_000, "{summary}");
    }
}

#[test]
fn sigterm_ends_a_run_whose_threads_all_fault_or_are_stopped() {
    let Some(lab) = Lab::fast("fast-sigterm") else { return };
    let program = lab.path("threads");
    compile(THREADS, &program, &["-O1", "-pthread"]);
    for words in [&["on"][..], &["on", "stopped"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command
            .args(["run", "--fast", "--local", "1MiB", "--latency", "0ns", "--"])
            .arg(&program)
            .args(words);
        command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = [0u8; 7];
        std::io::Read::read_exact(run.stdout.as_mut().unwrap(), &mut said).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        Command::new("kill").arg(run.id().to_string()).status().unwrap();
        run.wait().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "{words:?}: {:?}", begin.elapsed());
    }
}

#[test]
fn short_processes_begin_while_memory_is_short() {
    let Some(lab) = Lab::fast("fast-short") else { return };
    let script = r#"
        python3 -c '
import os
data = bytearray(24 << 20)
while os.getppid() != 1:
    for at in range(0, len(data), 4096): data[at] ^= 1' &
        hog=$!
        for n in $(seq 300); do
            found=$(printf 'a:1\r\nb:%s\n' $n | tr -d '\r' | sed -n 's/^b://p')
            [ "$found" = $n ] || echo "wrong: $n $found"
        done
        kill $hog
        echo done"#;
    let (output, summary) =
        lab.run(&["--fast", "--local", "4MiB", "--latency", "0ns"], &["sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{}", stderr(&output));
    assert!(summary["processes"].as_u64().unwrap() > 900, "{summary}");
}
