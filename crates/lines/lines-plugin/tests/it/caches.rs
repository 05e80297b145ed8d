//! Levels that serve a program's loads and stores: of programs whose working set is known.

use crate::common::{compiled, recorded, tools};
use std::path::{Path, PathBuf};
use unrack_lines::hierarchy::CacheCounters;
use unrack_lines::placement::PagePlacement;
use unrack_lines::window::{RecordedWindow, ServedBy};
use unrack_lines_run::{Options, ProcessRecord, Tools};
use unrack_testing::TestFolder;

/// Follows a random cycle through `argv[1]` lines, `argv[2]` times; or where `argv[3]` is given, stores there.
const CHASE: &str = "
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv) {
        uint64_t lines = atol(argv[1]), steps = atol(argv[2]), x = 88172645463325252u;
        uint64_t (*ring)[8] = aligned_alloc(4096, lines * 64);
        for (uint64_t i = 0; i < lines; i++) ring[i][0] = i;
        for (uint64_t i = lines - 1; i > 0; i--) {
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            uint64_t j = x % i, next = ring[i][0];
            ring[i][0] = ring[j][0];
            ring[j][0] = next;
        }
        uint64_t at = 0;
        if (argc > 3) for (uint64_t i = 0; i < steps; i++) { at = ring[at][0]; ring[at][1] = i; }
        else for (uint64_t i = 0; i < steps; i++) at = ring[at][0];
        printf(\"%lu\\n\", at);
        return 0;
    }";

/// Processor whose last level is far smaller than the large working set here.
const PROCESSOR: &str = "zen3:l3=4M/16";

fn options() -> Options {
    Options {
        processor: Some(PROCESSOR.parse().unwrap()),
        cores: Some(1),
        placements: Some(vec![
            PagePlacement::AllFar,
            PagePlacement::AllNear,
            PagePlacement::Interleaved { near_share: 0.5 },
        ]),
        period: Some(200_000),
        ..Options::default()
    }
}

fn program(folder: &TestFolder) -> PathBuf {
    compiled(folder, "chase", CHASE, &["-O2"])
}

fn process(
    tools: &Tools,
    program: &Path,
    words: &[&str],
    folder: &TestFolder,
) -> (ProcessRecord, Vec<RecordedWindow>) {
    let command: Vec<_> = [program.into()].into_iter().chain(words.iter().map(|word| word.into())).collect();
    let mut kept = recorded(tools, &command, &options(), folder);
    assert!(kept.run.status.success(), "{}", kept.err);
    let process = kept.run.processes.remove(0);
    let mut reader = process.open().unwrap().expect("windows");
    assert_eq!(reader.header().processor, "zen3:l3=4194304/16");
    assert_eq!(reader.header().placements, ["all-far", "all-near", "interleaved:0.5"]);
    let windows = std::iter::from_fn(|| reader.next_window().unwrap()).collect();
    (process, windows)
}

fn counters(process: &ProcessRecord) -> CacheCounters {
    process.summary.threads[0].caches
}

/// Returns the loads by level of a longer chase that a shorter one does not have, and the last windows of the longer.
fn chase(lines: u64, steps: [u64; 2]) -> Option<([u64; 5], Vec<RecordedWindow>)> {
    let tools = tools()?;
    let folder = TestFolder::new("chase");
    let program = program(&folder);
    let run = |steps: u64| process(&tools, &program, &[&lines.to_string(), &steps.to_string()], &folder);
    let ((short, _), (long, windows)) = (run(steps[0]), run(steps[1]));
    let [short, long] = [&short, &long].map(|process| counters(process).loads);
    Some((std::array::from_fn(|level| long[level].saturating_sub(short[level])), windows))
}

#[test]
fn a_chase_beyond_the_last_level_is_served_by_memory() {
    // Once around the 2^20 lines of 64 MiB, then 200,000 steps more.
    let Some((loads, windows)) = chase(1 << 20, [1_100_000, 1_300_000]) else { return };
    assert!(loads[ServedBy::Memory as usize] >= 199_000, "{loads:?}");
    assert!(loads.iter().sum::<u64>() < 201_000, "{loads:?}");
    let last = &windows[windows.len() - 2];
    let served = last.accesses.iter().filter(|access| access.served == ServedBy::Memory);
    assert!(served.clone().count() * 100 > last.accesses.len() * 99, "{} windows", windows.len());
    let walks = served.clone().filter(|access| access.walk != Default::default()).count();
    assert!(walks * 10 > last.accesses.len() * 9, "16384 pages are in no TLB");
    let near = |bit: u16| served.clone().filter(|access| access.near >> bit & 1 == 1).count();
    let half = near(2) as f64 / near(1) as f64;
    assert!(near(0) == 0 && near(1) == served.clone().count() && (0.45..0.55).contains(&half), "{half}");
}

#[test]
fn a_chase_within_the_first_level_is_served_there() {
    let Some((loads, windows)) = chase(256, [100_000, 1_100_000]) else { return };
    assert!(loads[ServedBy::L1 as usize] >= 999_900, "{loads:?}");
    let last = &windows[windows.len() - 2];
    assert!(last.accesses.iter().all(|access| access.served == ServedBy::L1 && access.near == 0));
}

#[test]
fn chases_within_the_second_and_last_level_are_served_there() {
    let Some((loads, _)) = chase(4096, [100_000, 300_000]) else { return };
    let [l1, l2, ..] = loads;
    // Of 4096 lines, 512 are in the first level if the order is drawn; in a cycle, none is.
    assert!(l2 >= 195_000 && l1 < 5_000, "{loads:?}");
    let Some((loads, _)) = chase(32768, [200_000, 400_000]) else { return };
    assert!(loads[ServedBy::L3 as usize] >= 195_000, "{loads:?}");
}

#[test]
fn stores_beyond_the_last_level_are_written_back() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("written");
    let program = program(&folder);
    let run = |steps: &str| process(&tools, &program, &["262144", steps, "w"], &folder);
    let ((short, _), (long, windows)) = (run("400000"), run("600000"));
    let (short, long) = (counters(&short), counters(&long));
    // Each line is modified when it leaves, 200,000 more in 200,000 steps.
    let written = long.write_backs - short.write_backs;
    assert!((199_000..201_000).contains(&written), "{written}");
    let last = &windows[windows.len() - 2];
    let missed = last.accesses.iter().filter(|access| access.served == ServedBy::Memory).count();
    assert!(last.write_backs.len().abs_diff(missed) * 100 < missed, "{} of {missed}", last.write_backs.len());
    let ring = last.write_backs.iter().filter(|write_back| write_back.near >> 1 & 1 == 1).count();
    assert_eq!(ring, last.write_backs.len(), "all pages are near by the second placement");
}

#[test]
fn misses_are_counted_by_function_and_mapping() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("named");
    let (process, _) = process(&tools, &program(&folder), &["262144", "400000"], &folder);
    let misses = counters(&process).misses();
    let summary = &process.summary;
    assert_eq!(summary.mappings.iter().map(|named| named.misses).sum::<u64>(), misses);
    let main = summary.functions.iter().find(|named| named.name == "main").expect("it has symbols");
    assert!(main.misses > misses * 9 / 10 && main.misses > 400_000, "{} of {misses}", main.misses);
    assert_eq!(summary.threads[0].loads, counters(&process).loads.iter().sum::<u64>());
    assert_eq!(summary.threads[0].stores, counters(&process).stores.iter().sum::<u64>());
}

#[test]
fn prefetchers_cover_a_scan_and_stand_in_its_windows() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("scan");
    let source = "
        #include <stdlib.h>
        int main(void) {
            size_t count = (16 << 20) / 8;
            volatile long *data = malloc(count * 8);
            for (int round = 0; round < 4; round++)
                for (size_t i = 0; i < count; i++) data[i];
            return 0;
        }";
    let program = compiled(&folder, "scan", source, &["-O2"]);
    let (process, windows) = process(&tools, &program, &[], &folder);
    let counters = counters(&process);
    let lines = 4 * (16 << 20) / 64;
    assert!(counters.loads[ServedBy::Memory as usize] * 20 < lines, "{counters:?}");
    assert!(counters.prefetches[ServedBy::Memory as usize] * 20 > lines * 18, "{counters:?}");
    let last = &windows[windows.len() - 2];
    let touched = last.accesses.len() / 8;
    assert!(
        touched > 500 && last.prefetches.len() * 10 > touched * 8,
        "{} of {touched}",
        last.prefetches.len()
    );
    assert!(last.prefetches.iter().all(|prefetch| prefetch.served != ServedBy::L1));
    assert!(
        last.prefetches.iter().any(|prefetch| prefetch.served == ServedBy::Memory && prefetch.near & 2 == 2)
    );
}

#[test]
fn a_line_that_two_threads_store_to_moves_between_their_cores() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("shared");
    let source = "
        #include <pthread.h>
        #include <sched.h>
        static struct { long first, second, apart[16]; } data __attribute__((aligned(64)));
        static volatile long turn __attribute__((aligned(64)));
        static void work(volatile long *at, long own) {
            for (long i = 0; i < 2000; i++) {
                while (turn != own) sched_yield();
                *at = i;
                turn = !own;
                sched_yield();
            }
        }
        static void *other(void *at) { work(at, 1); return 0; }
        int main(int argc, char **argv) {
            pthread_t thread;
            pthread_create(&thread, 0, other, argc > 1 ? &data.apart[8] : &data.second);
            work(&data.first, 0);
            pthread_join(thread, 0);
            return 0;
        }";
    let program = compiled(&folder, "shared", source, &["-O1", "-pthread"]);
    let peers = |words: &[&str]| {
        let command: Vec<_> =
            [program.clone().into()].into_iter().chain(words.iter().map(|word| word.into())).collect();
        let kept = recorded(&tools, &command, &Options { cores: Some(2), ..options() }, &folder);
        let summary = &kept.run.processes[0].summary;
        assert_eq!(summary.error, None);
        summary.threads.iter().map(|thread| thread.caches.served(ServedBy::Peer)).sum::<u64>()
    };
    let (shared, apart) = (peers(&[]), peers(&["apart"]));
    // Both programs pass `turn` on 4000 times; a system call has the events before it processed.
    assert!(apart > 2000 && shared > apart + 2000, "{shared} and {apart}");
}

#[test]
fn memory_that_is_mapped_anew_is_new() {
    let Some(tools) = tools() else { return };
    let folder = TestFolder::new("anew");
    let source = "
        #include <sys/mman.h>
        int main(void) {
            for (int round = 0; round < 50; round++) {
                char *data = mmap(0, 40960, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (int i = 0; i < 40960; i += 64) data[i] = 1;
                munmap(data, 40960);
            }
            return 0;
        }";
    let program = compiled(&folder, "anew", source, &["-O1"]);
    // A prefetcher would bring some of the lines before they are stored to.
    let options = Options { processor: Some("zen3:prefetchers=none".parse().unwrap()), ..options() };
    let kept = recorded(&tools, &[program.into()], &options, &folder);
    let summary = &kept.run.processes[0].summary;
    let caches = summary.threads[0].caches;
    assert!((500..700).contains(&summary.new_pages), "{}", summary.new_pages);
    assert!(caches.stores[ServedBy::Memory as usize] >= 50 * 640, "{caches:?}");
}
