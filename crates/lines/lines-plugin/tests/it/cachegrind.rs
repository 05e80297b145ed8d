//! Misses beside those of Valgrind's cachegrind, an independent simulator of caches, with the same geometry.
//!
//! Cachegrind has a first level and a last level that sees what misses there (Valgrind User Manual, 5.7). The first level
//! here is its D1, the second its LL, and what is beyond does not count. Prefetchers are off. Its instruction cache is
//! so large that code enters the last level once.

use crate::common::{recorded, tools};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use unrack_lines::hierarchy::CacheCounters;
use unrack_lines::window::ServedBy;
use unrack_lines_run::{Options, Tools};
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Largest difference, as a share of cachegrind's count.
const TOLERANCE: f64 = 0.02;

/// Geometry of both: bytes and ways of the first and the last level.
const SIZES: [(u64, u32); 2] = [(32 << 10, 8), (512 << 10, 8)];

/// Misses of the first level, and of the last.
type Misses = [u64; 2];

fn valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok();
    if !found {
        skip(TestRequirement::Valgrind, "valgrind is not installed");
    }
    found
}

/// Returns the misses that cachegrind counts.
fn independent(command: &[OsString], folder: &Path) -> Misses {
    let out = folder.join("cachegrind.out");
    let [first, last] = SIZES.map(|(bytes, ways)| format!("{bytes},{ways},64"));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=yes", "--I1=4194304,16,64"]);
    valgrind.args([format!("--D1={first}"), format!("--LL={last}")]);
    valgrind.arg(format!("--cachegrind-out-file={}", out.display())).args(command);
    let run = valgrind.stdin(Stdio::null()).current_dir(folder).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&out).unwrap();
    let words = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key} in {text}")).split_whitespace().map(String::from).collect()
    };
    let (events, counts): (Vec<String>, Vec<String>) = (words("events:"), words("summary:"));
    let count = |event: &str| -> u64 {
        let index = events.iter().position(|name| name == event).expect("an event of cachegrind");
        counts[index].parse().unwrap()
    };
    [count("D1mr") + count("D1mw"), count("DLmr") + count("DLmw")]
}

/// Returns the misses of the recorder's caches.
fn ours(tools: &Tools, command: &[OsString], folder: &Path) -> Misses {
    let [(l1, l1_ways), (l2, l2_ways)] = SIZES;
    let processor =
        format!("zen3:l1={l1}/{l1_ways}:l2={l2}/{l2_ways}:frames=same:l3=64K/16:prefetchers=none");
    let options =
        Options { processor: Some(processor.parse().unwrap()), cores: Some(1), ..Options::default() };
    let kept = recorded(tools, command, &options, folder);
    assert!(kept.run.status.success(), "{}", kept.err);
    let [process] = &kept.run.processes[..] else { panic!("{} processes", kept.run.processes.len()) };
    let [thread] = &process.summary.threads[..] else { panic!("several threads") };
    misses(&thread.caches)
}

fn misses(caches: &CacheCounters) -> Misses {
    let last =
        [ServedBy::L3, ServedBy::Peer, ServedBy::Memory].map(|by| caches.served(by)).iter().sum::<u64>();
    [caches.served(ServedBy::L2) + last, last]
}

#[track_caller]
fn same(command: &[OsString]) {
    let Some(tools) = tools().filter(|_| valgrind()) else { return };
    let folder = TestFolder::new("cachegrind");
    let (ours, theirs) = (ours(&tools, command, &folder), independent(command, &folder));
    for (level, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
        let difference = (ours as f64 - theirs as f64) / theirs as f64;
        println!(
            "{command:?}: {ours} misses of level {}, {theirs} by cachegrind: {difference:+.4}",
            level + 1
        );
        assert!(
            difference.abs() <= TOLERANCE,
            "{command:?}: {ours} misses of level {}, but {theirs} by cachegrind: {difference:+.4}",
            level + 1
        );
    }
}

/// Runs a kernel on a working set of so many bytes.
#[track_caller]
fn kernel(name: &str, size: &str, rounds: &str) {
    let executable = std::env::current_exe().unwrap();
    let kernels: PathBuf = executable.ancestors().nth(2).unwrap().join("examples/kernels");
    assert!(kernels.is_file(), "{}: cargo builds it with the tests", kernels.display());
    same(&[kernels.into(), name.into(), size.into(), "--rounds".into(), rounds.into()]);
}

#[test]
fn chase() {
    kernel("chase", "2M", "10");
}

#[test]
fn triad() {
    kernel("triad", "2M", "10");
}

#[test]
fn gups() {
    kernel("gups", "1M", "8");
}

#[test]
fn bfs() {
    kernel("bfs", "2M", "2");
}

#[test]
fn sort() {
    kernel("sort", "1M", "2");
}

#[test]
fn matmul() {
    kernel("matmul", "512K", "1");
}

#[test]
fn join() {
    kernel("join", "1M", "2");
}

#[test]
fn a_program_of_the_system() {
    let folder = TestFolder::new("sorted");
    let file = folder.join("numbers");
    let mut random = unrack_basis::SplitMix64::new(1);
    let lines: String = (0..30_000).map(|_| format!("{}\n", random.next_u64())).collect();
    std::fs::write(&file, lines).unwrap();
    same(&["/usr/bin/gzip".into(), "-c".into(), file.as_os_str().into()]);
}
