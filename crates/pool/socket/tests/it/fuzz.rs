//! Random servers and clients (`tests/programs/fuzz.c`): threads, descriptors, epoll modes and processes, drawn from a seed. The same
//! seeds by the kernel alone and below the library, with equal results.

use crate::common::{Rack, output_of, without_wakeups};
use crate::conformance::compile;
use std::process::Command;
use unrack_testing::TestFolder;

/// Seeds of a run, and the first of them; others by `UNRACK_SOCKET_SEEDS` and `UNRACK_SOCKET_SEED`.
const SEEDS: u64 = 25;
const FIRST: u64 = 1;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Further runs of a seed whose answers came late.
const AGAIN: u32 = 4;

/// Returns a line of the program as if all answers had come in time: other work of the machine delays them, too.
fn without_time(line: &str) -> String {
    line.replace("LATE", "in time")
}

#[test]
fn random_servers_and_clients_lose_no_byte_and_no_wakeup() {
    let folder = TestFolder::new("sockets-fuzz");
    let program = compile(&folder, "fuzz");
    let (first, seeds) = (variable("UNRACK_SOCKET_SEED", FIRST), variable("UNRACK_SOCKET_SEEDS", SEEDS));
    for wakeups in [true, false] {
        let rack = Rack::new("sockets-fuzzed", 1024);
        let run = |is_below: bool, first: u64, seeds: u64| {
            let mut command = Command::new(&program);
            command.args([first.to_string(), seeds.to_string()]);
            if is_below {
                rack.preload(&mut command);
            }
            output_of(if wakeups { command } else { without_wakeups(command) })
        };
        let (kernels, found) = (run(false, first, seeds), run(true, first, seeds));
        for ((kernels, found), seed) in kernels.lines().zip(found.lines()).zip(first..) {
            let said = format!("UNRACK_SOCKET_SEED={seed} UNRACK_SOCKET_SEEDS=1, wakeups: {wakeups}");
            assert_eq!(without_time(found), without_time(kernels), "{said}");
            // Where wakeups are lost, answers come late in each run of the seed.
            let is_late = |line: &str| line.contains("LATE");
            let is_slow = is_late(found) && (0..AGAIN).all(|_| is_late(&run(true, seed, 1)));
            assert!(!is_slow, "answers came late in each of {} runs: {said}", AGAIN + 1);
        }
        assert_eq!(found.lines().count() as u64, seeds);
        assert!(rack.carried() > seeds, "{} connections were carried", rack.carried());
    }
}
