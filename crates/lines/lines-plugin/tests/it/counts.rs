//! Counts of programs whose loads and stores are known.

use crate::common::{compiled, recorded, tools, total};
use std::path::Path;
use unrack_lines_run::{Options, ProcessRecord, Tools};
use unrack_testing::TestFolder;

fn process(tools: &Tools, program: &Path, argument: &str, folder: &TestFolder) -> ProcessRecord {
    let command = [program.into(), argument.into()];
    // Windows so near that branches are predicted from one to the next.
    let options = Options { period: Some(400_000), ..Options::default() };
    let mut kept = recorded(tools, &command, &options, folder);
    assert!(kept.run.status.success(), "{}", kept.err);
    assert_eq!(kept.run.processes.len(), 1);
    kept.run.processes.remove(0)
}

/// Runs a program with two arguments, and returns what the second does more: instructions, loads, stores.
fn difference(source: &str, options: &[&str], arguments: [&str; 2]) -> Option<[u64; 3]> {
    let tools = tools()?;
    let folder = TestFolder::new("counts");
    let program = compiled(&folder, "counted", source, options);
    let [less, more] = arguments.map(|argument| {
        let process = process(&tools, &program, argument, &folder);
        [
            total(&process, |thread| thread.instructions),
            total(&process, |thread| thread.loads),
            total(&process, |thread| thread.stores),
        ]
    });
    Some([more[0] - less[0], more[1] - less[1], more[2] - less[2]])
}

const MAIN: &str = "
#include <stdint.h>
int main(int argc, char **argv) {
    uint64_t n = 0;
    for (char *digit = argv[1]; *digit; digit++) n = n * 10 + (*digit - '0');
    work(n);
    return 0;
}";

/// Runs `body`, which is assembler with `%0` for the count, a hundred thousand times more. Both counts have as many
/// digits, so that the rest is the same.
fn of_loop(body: &str) -> Option<[u64; 3]> {
    let source = format!(
        "#include <stdint.h>
        static uint64_t data[32] __attribute__((aligned(64)));
        static void work(uint64_t n) {{
            __asm__ volatile(\"1:\\n{body}\\ndec %0\\njnz 1b\" : \"+r\"(n) : \"r\"(data) : \"rax\", \"rcx\", \"rsi\", \"rdi\", \
             \"xmm0\", \"ymm1\", \"memory\", \"cc\");
        }}{MAIN}"
    );
    difference(&source, &["-O1", "-mavx2"], ["100000", "200000"])
}

#[test]
fn a_loop_of_loads_loads_as_often() {
    let Some(counts) = of_loop("mov (%1), %%rax") else { return };
    assert_eq!(counts, [300_000, 100_000, 0]);
}

#[test]
fn a_loop_of_stores_stores_as_often() {
    let Some(counts) = of_loop("mov %%rax, 8(%1)") else { return };
    assert_eq!(counts, [300_000, 0, 100_000]);
}

#[test]
fn a_modification_is_a_load_and_a_store() {
    let Some(counts) = of_loop("addq $1, (%1)") else { return };
    assert_eq!(counts, [300_000, 100_000, 100_000]);
    let Some(counts) = of_loop("lock addq $1, (%1)") else { return };
    assert_eq!(counts, [300_000, 100_000, 100_000]);
}

#[test]
fn a_vector_is_one_access_for_each_line() {
    let Some(counts) = of_loop("movups (%1), %%xmm0") else { return };
    assert_eq!(counts, [300_000, 100_000, 0]);
    let Some(counts) = of_loop("vmovdqu (%1), %%ymm1\\nvmovdqu %%ymm1, 32(%1)") else { return };
    assert_eq!(counts, [400_000, 100_000, 100_000]);
    let Some(counts) = of_loop("movups 56(%1), %%xmm0") else { return };
    assert_eq!(counts, [300_000, 200_000, 0], "half of it is in the next line");
}

#[test]
fn a_repeated_instruction_accesses_each_line_once() {
    let Some(counts) = of_loop("mov %1, %%rdi\\nmov $32, %%ecx\\nrep stosq") else { return };
    // Four lines: two stores were given to the caches, and the third fills its line, before another one begins.
    assert_eq!(counts, [4 * 100_000 + 2 * 100_000, 0, 400_000]);
}

#[test]
fn threads_are_counted_apart() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("threads");
    let source = "
        #include <pthread.h>
        static long sum;
        static void *work(void *n) {
            for (long i = 0; i < (long)n; i++) __atomic_add_fetch(&sum, 1, __ATOMIC_SEQ_CST);
            return 0;
        }
        int main(void) {
            pthread_t threads[3];
            for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(100000 * (i + 1)));
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return sum == 600000 ? 0 : 1;
        }";
    let program = compiled(&folder, "threads", source, &["-O1", "-pthread"]);
    let process = process(&tools, &program, "", &folder);
    let threads = &process.summary.threads;
    assert_eq!(threads.len(), 4);
    for (thread, count) in threads[1..].iter().zip([100_000, 200_000, 300_000]) {
        // An atomic addition is a load and a store; beginning and end of a thread are a few hundred instructions.
        let rest = [thread.loads - count, thread.stores - count, thread.instructions - 4 * count];
        assert!(rest.iter().all(|rest| *rest < 5000), "{thread:?}");
    }
}

#[test]
fn mispredictions_of_random_jumps_are_half_of_them() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("jumps");
    let source = format!(
        "#include <stdint.h>
        static volatile uint64_t sink;
        static void work(uint64_t n) {{
            uint64_t x = 88172645463325252ull;
            while (n--) {{
                x ^= x << 13; x ^= x >> 7; x ^= x << 17;
                if (x & 1024) sink = 1;
            }}
        }}{MAIN}"
    );
    let program = compiled(&folder, "jumps", &source, &["-O1"]);
    let process = process(&tools, &program, "200000", &folder);
    let mispredicted = total(&process, |thread| thread.mispredicted);
    assert!((90_000..120_000).contains(&mispredicted), "{mispredicted}");
}
