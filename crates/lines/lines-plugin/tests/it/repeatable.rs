//! Two runs of one program leave the same bytes.

use crate::common::{compiled, recorded, tools};
use unrack_lines_run::{Options, Tools};
use unrack_testing::TestFolder;

const SOURCE: &str = "
    #include <stdio.h>
    #include <stdlib.h>
    int main(void) {
        enum { N = 20000 };
        long *data = malloc(N * sizeof *data);
        unsigned long x = 1;
        for (int i = 0; i < N; i++) data[i] = (x = x * 6364136223846793005ul + 1442695040888963407ul) >> 33;
        long sum = 0;
        for (int round = 0; round < 30; round++)
            for (int i = 0, at = 0; i < N; i++) { at = data[at] % N; sum += data[at]++; }
        printf(\"%ld\\n\", sum);
        return 0;
    }";

/// Returns the bytes of the recording of one run.
fn recording(tools: &Tools, folder: &TestFolder, options: &Options) -> Vec<u8> {
    let program = compiled(folder, "chase", SOURCE, &["-O1"]);
    let kept = recorded(tools, &[program.into()], options, folder);
    assert!(kept.run.status.success(), "{}", kept.err);
    let path = kept.run.processes[0].recording.as_ref().expect("several million instructions");
    std::fs::read(path).unwrap()
}

#[test]
fn the_same_run_records_the_same_bytes() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("repeatable");
    let options = Options { period: Some(100_000), ..Options::default() };
    let first = recording(&tools, &folder, &options);
    assert!(first.len() > 100_000);
    assert!(first == recording(&tools, &folder, &options), "two runs differ");
    assert!(first != recording(&tools, &folder, &Options { seed: 1, ..options }), "the seed has no effect");
}

#[test]
fn a_recording_stays_below_its_limit() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("limit");
    let limit = 300_000;
    let options = Options { period: Some(50_000), limit: Some(limit), ..Options::default() };
    let program = compiled(&folder, "chase", SOURCE, &["-O1"]);
    let kept = recorded(&tools, &[program.into()], &options, &folder);
    let process = &kept.run.processes[0];
    assert_eq!(process.summary.error, None);
    let path = process.recording.as_ref().unwrap();
    assert!(std::fs::metadata(path).unwrap().len() <= limit);
    let mut reader = process.open().unwrap().unwrap();
    let mut starts = Vec::new();
    while let Some(window) = reader.next_window().unwrap() {
        starts.push(window.start);
    }
    let (sample, period) = (process.summary.sample, process.summary.threads[0].period);
    assert!(period > 50_000 && starts.len() as u64 == sample.windows && starts.len() > 1);
    for pair in starts.windows(2) {
        // Windows begin with a block, which has at most 512 instructions.
        assert!((pair[1] - pair[0]).abs_diff(period) < 512, "{starts:?}");
    }
}

/// Two threads, of which one executes fifty times as many instructions: both have windows, however small the recording.
const THREADS: &str = "
    #include <pthread.h>
    static volatile unsigned long sum;
    static void *add(void *rounds) {
        unsigned long x = 0;
        for (long i = 0; i < (long)rounds; i++) { x += i * i; __asm__(\"\" : \"+r\"(x)); }
        sum += x;
        return 0;
    }
    int main(void) {
        pthread_t few, many;
        pthread_create(&few, 0, add, (void *)500000);
        pthread_create(&many, 0, add, (void *)25000000);
        pthread_join(few, 0);
        pthread_join(many, 0);
        return 0;
    }";

#[test]
fn a_busy_thread_leaves_windows_to_the_others() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("threads");
    let options = Options { period: Some(50_000), limit: Some(300_000), ..Options::default() };
    let program = compiled(&folder, "threads", THREADS, &["-O1", "-pthread"]);
    let kept = recorded(&tools, &[program.into()], &options, &folder);
    let summary = &kept.run.processes[0].summary;
    assert_eq!(summary.error, None);
    let mut threads = summary.threads.clone();
    threads.sort_by_key(|thread| thread.instructions);
    let [_, few, many] = &threads[..] else { panic!("the main thread and two: {threads:?}") };
    assert!(few.period < many.period && few.windows >= 8, "{threads:?}");
    let all: u64 = threads.iter().map(|thread| thread.windows).sum();
    assert_eq!(all, summary.sample.windows);
}
