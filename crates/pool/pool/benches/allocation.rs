//! Cost of a buffer, compared with `malloc` in the same run.
//!
//! Run it with `cargo bench -p unrack-pool`. It prints the nanoseconds for an allocation and its release, as the
//! minimum over several passes, with one thread and with two threads at once. *pairs* frees each buffer immediately.
//! *batch* takes 64 buffers and frees them in the same order, as a client does when replies arrive. The memory is not
//! touched, because touching it costs the same for all allocators.

use std::hint::black_box;
use std::time::Instant;
use unrack_pool::{Arena, Client, Manager, Options, SECTION};
use unrack_units::Bytes;

const ROUNDS: u32 = 200_000;
const PASSES: usize = 7;
const BATCH: usize = 64;

fn main() {
    // `cargo test` also runs benches, to check that they work.
    let (rounds, passes) =
        if std::env::args().any(|word| word == "--test") { (100, 1) } else { (ROUNDS, PASSES) };
    let folder = std::env::temp_dir().join(format!("unrack-pool-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for the socket");
    let options = Options::new(folder.join("pool.sock"), Bytes::new(1 << 30));
    let manager = Manager::start(&options).expect("a manager starts");
    let client = Client::connect(manager.socket()).expect("the manager is there");
    let arena = client.arena();

    println!("{:>10} {:>8}{:>10}{:>10}{:>10}{:>10}", "bytes", "threads", "", "cache", "arena", "malloc");
    for threads in [1, 2] {
        for bytes in [64, 1024, 16 * 1024, 256 * 1024, SECTION] {
            // A buffer of whole sections is taken under the arena's lock, because it is rare and filling it costs more.
            for batch in [1, BATCH] {
                if bytes * (batch * threads) as u64 > 1 << 28 {
                    continue;
                }
                let rounds = if bytes > 1 << 18 { rounds / 100 } else { rounds } / batch as u32;
                let best = |run: &(dyn Fn(u32) + Sync)| least(passes, threads, rounds, batch, run);
                let cached = best(&|rounds| cached(&arena, bytes, rounds, batch));
                let shared = best(&|rounds| shared(&arena, bytes, rounds, batch));
                let malloc = best(&|rounds| malloc(bytes as usize, rounds, batch));
                let kind = if batch == 1 { "pairs" } else { "batch" };
                println!("{bytes:>10} {threads:>8}{kind:>10}{cached:>10.1}{shared:>10.1}{malloc:>10.1}");
            }
        }
    }
    drop((arena, client, manager));
    let _ = std::fs::remove_dir_all(folder);
}

/// Returns the nanoseconds per allocation in the best pass.
fn least(passes: usize, threads: usize, rounds: u32, batch: usize, run: &(dyn Fn(u32) + Sync)) -> f64 {
    let pass = || {
        let start = Instant::now();
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| run(rounds)))));
        start.elapsed().as_nanos() as f64 / (rounds as f64 * batch as f64)
    };
    (0..passes).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

fn cached(arena: &Arena, bytes: u64, rounds: u32, batch: usize) {
    let mut cache = arena.cache();
    let mut held = Vec::with_capacity(batch);
    for _ in 0..rounds {
        held.extend((0..batch).map(|_| black_box(cache.alloc(bytes).expect("there is room"))));
        held.drain(..).for_each(|buffer| cache.free(buffer));
    }
}

fn shared(arena: &Arena, bytes: u64, rounds: u32, batch: usize) {
    let mut held = Vec::with_capacity(batch);
    for _ in 0..rounds {
        held.extend((0..batch).map(|_| black_box(arena.alloc(bytes).expect("there is room"))));
        held.drain(..).for_each(|buffer| arena.free(buffer));
    }
}

fn malloc(bytes: usize, rounds: u32, batch: usize) {
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(batch);
    for _ in 0..rounds {
        held.extend((0..batch).map(|_| black_box(Vec::with_capacity(bytes))));
        held.drain(..).for_each(|buffer| drop(black_box(buffer)));
    }
}
