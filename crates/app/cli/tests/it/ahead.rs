//! `unrack run --read-ahead`: threads that stride through memory wait for fewer pages, and all else stays as it is.

use crate::common;
use crate::remote::Node;

use common::{Lab, compile, stderr};
use std::path::Path;
use std::process::Command;

/// Program that writes 24 MiB and reads it by steps of several lengths, backwards too, and then in random order; with an argument,
/// in two threads. It prints what it found.
const STRIDES: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { PAGES = 6144, PAGE = 4096 };
static unsigned char *memory;

static void *stride(void *part) {
    unsigned long sum = 0, half = PAGES / 2, from = (unsigned long)part * half;
    int steps[] = {1, 3, -1, 8, 1};
    for (int s = 0; s < 10; s++) {
        int step = abs(steps[s % 5]);
        for (unsigned long first = 0; first < (unsigned long)step; first++)
            for (unsigned long at = first; at < half; at += step) {
                unsigned long page = from + (steps[s % 5] < 0 ? half - 1 - at : at);
                unsigned char *word = memory + page * PAGE + s % 8;
                sum = sum * 31 + *word;
                *word = (unsigned char)(page + sum);
            }
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    memory = malloc((size_t)PAGES * PAGE);
    for (long page = 0; page < PAGES; page++)
        for (int n = 0; n < 8; n++) memory[page * PAGE + n] = (unsigned char)(page * 7 + n);
    void *sums[2];
    if (argc > 1) {
        pthread_t other;
        pthread_create(&other, NULL, stride, (void *)1);
        sums[0] = stride((void *)0);
        pthread_join(other, &sums[1]);
    } else {
        sums[0] = stride((void *)0);
        sums[1] = stride((void *)1);
    }
    unsigned long at = 1, sum = 0;
    for (int n = 0; n < 3000; n++) {
        at = at * 1103515245 + 12345;
        sum += memory[(at >> 8) % PAGES * PAGE];
    }
    printf("%lu %lu %lu\n", (unsigned long)sums[0], (unsigned long)sums[1], sum);
}
"#;

/// Runs the program with so many pages ahead. Returns its output, pages waited for, pages ahead, and those that were late.
fn run(lab: &Lab, ahead: &str, more: &[&str], command: &[&str]) -> (Vec<u8>, [u64; 3]) {
    let options = [&["--local", "6MiB", "--read-ahead", ahead], more].concat();
    let (output, summary) = lab.run(&options, command);
    assert!(output.status.success(), "{}", stderr(&output));
    let count = |key: &str| summary[key].as_u64().unwrap();
    (output.stdout, ["fetches", "ahead", "late"].map(count))
}

fn native(command: &[&str]) -> Vec<u8> {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

fn program(lab: &Lab) -> String {
    let at = lab.path("strides");
    compile(STRIDES, &at, &["-O1", "-pthread"]);
    Path::to_str(&at).unwrap().into()
}

#[test]
fn threads_that_stride_wait_less_and_find_the_same() {
    let Some(lab) = Lab::paging("ahead") else { return };
    let program = program(&lab);
    for command in [&[program.as_str()][..], &[&program, "threads"]] {
        let native = native(command);
        let (output, [waits, ahead, late]) = run(&lab, "0", &[], command);
        assert_eq!((output, ahead, late), (native.clone(), 0, 0));
        for most in ["1", "16", "64"] {
            let (output, [waited, ahead, late]) = run(&lab, most, &[], command);
            assert_eq!(output, native, "{command:?} {most}");
            let told = format!("{command:?} {most}: {waited} of {waits} waits, {ahead} ahead, {late} late");
            assert!(waited < waits / 2 + late && late <= waited, "{told}");
            assert!(ahead > waits / 3 && ahead < 2 * waits, "{told}");
        }
    }
}

#[test]
#[ignore = "long: make soak runs it"]
fn pages_come_early_from_a_node_too() {
    let Some(lab) = Lab::paging("ahead-node") else { return };
    let program = program(&lab);
    let command = [program.as_str(), "threads"];
    let native = native(&command);
    let socket = lab.path("node");
    for (way, at) in [("--listen", "127.0.0.1:0"), ("--shm", socket.to_str().unwrap())] {
        let node = Node::serve(&[way, at, "--capacity", "64MiB"]);
        let remote = ["--remote", node.at.as_str()];
        let (output, [waits, ..]) = run(&lab, "0", &remote, &command);
        assert_eq!(output, native, "{way}");
        let (output, [waited, ahead, _]) = run(&lab, "16", &remote, &command);
        assert_eq!(output, native, "{way}");
        assert!(waited < waits / 2 && ahead > waits / 3, "{way}: {waited} of {waits}, {ahead} ahead");
    }
}

#[test]
fn a_trace_that_would_not_tell_who_waited_is_refused() {
    let lab = Lab::new("ahead-refused");
    let output = lab.unrack(&[&"run", &"--read-ahead", &"8", &"--capture", &"t.parquet", &"--", &"true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--capture"), "{}", stderr(&output));
}
