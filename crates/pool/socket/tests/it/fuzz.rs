//! Random servers and clients (`tests/programs/fuzz.c`): threads, descriptors, epoll modes and processes, drawn from a seed. The same
//! seeds by the kernel alone and below the library, with equal results.

use crate::common::{Rack, output_of, without_bells};
use crate::conformance::compile;
use std::process::Command;
use unrack_testing::Folder;

/// Seeds of a run, and the first of them; others by `UNRACK_SOCKET_SEEDS` and `UNRACK_SOCKET_SEED`.
const SEEDS: u64 = 25;
const FIRST: u64 = 1;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn random_servers_and_clients_lose_no_byte_and_no_wakeup() {
    let folder = Folder::new("sockets-fuzz");
    let program = compile(&folder, "fuzz");
    let (first, seeds) = (variable("UNRACK_SOCKET_SEED", FIRST), variable("UNRACK_SOCKET_SEEDS", SEEDS));
    for bells in [true, false] {
        let rack = Rack::new("sockets-fuzzed", 1024);
        let run = |is_below: bool| {
            let mut command = Command::new(&program);
            command.args([first.to_string(), seeds.to_string()]);
            if is_below {
                rack.preload(&mut command);
            }
            output_of(if bells { command } else { without_bells(command) })
        };
        let (kernels, found) = (run(false), run(true));
        for (kernels, found) in kernels.lines().zip(found.lines()) {
            let seed = found.split(':').next().unwrap_or_default();
            assert_eq!(found, kernels, "UNRACK_SOCKET_SEED={seed} UNRACK_SOCKET_SEEDS=1, bells: {bells}");
        }
        assert_eq!(found.lines().count() as u64, seeds);
        assert!(rack.carried() > seeds, "{} connections were carried", rack.carried());
    }
}
