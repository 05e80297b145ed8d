//! Data passes between two processes in every kind of memory.

use crate::common::{PATIENCE, Pool};
use std::sync::atomic::AtomicU64;
use unrack_pool::cache_control::{Incoherent, MemoryKind, SharedMemory};
use unrack_pool::wire::Access;
use unrack_pool::{Channel, LINE};
use unrack_testing::{TestRequirement, skip};

/// Returns an entry of a queue area, on a line of its own.
fn entry(channel: &Channel, line: usize) -> &AtomicU64 {
    // SAFETY: a queue area is at least a page, and aligned; atomics may be shared.
    unsafe { channel.queue_base().byte_add(line * LINE).cast::<AtomicU64>().as_ref() }
}

fn pass(mode: MemoryKind) {
    const LAPS: u64 = 300;
    const BYTES: usize = 1000;
    let pool = Pool::new(|options| options.mode = mode);
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let channel = service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap();
            let memory = server.memory();
            for lap in 1..=LAPS {
                let offset = loop {
                    match memory.load(entry(&channel, 0)) {
                        stored if stored >> 40 == lap => break stored & ((1 << 40) - 1),
                        _ => std::thread::yield_now(),
                    }
                };
                let found =
                    channel.resolve(offset, BYTES as u64, Access::Read).expect("it was granted").as_ptr();
                // SAFETY: granted, long enough, and its owner does not write it before we answer.
                let bytes = unsafe {
                    memory.refresh(found, BYTES);
                    std::slice::from_raw_parts(found, BYTES)
                };
                assert!(bytes.iter().all(|&byte| byte == lap as u8), "{mode}: lap {lap}");
                memory.store(entry(&channel, 1), lap);
            }
        });
        let (channel, _) = client.open("kv", b"", 0, &[], PATIENCE).unwrap();
        let arena = client.arena();
        arena.share_with(&channel, Access::Read).unwrap();
        let mut cache = arena.cache();
        let memory = client.memory();
        for lap in 1..=LAPS {
            let buffer = cache.alloc(BYTES as u64).unwrap();
            // SAFETY: ours, and long enough.
            unsafe { memory.write(buffer.as_ptr(), &[lap as u8; BYTES]) };
            memory.store(entry(&channel, 0), lap << 40 | buffer.offset());
            while memory.load(entry(&channel, 1)) < lap {
                std::thread::yield_now();
            }
            cache.free(buffer);
        }
    });
}

#[test]
fn data_passes_in_coherent_memory() {
    pass(MemoryKind::Coherent);
}

#[test]
fn data_passes_in_incoherent_memory() {
    if let Err(why) = Incoherent::detect() {
        return skip(TestRequirement::Flush, why);
    }
    pass(MemoryKind::Incoherent);
}

#[test]
fn data_passes_in_uncached_memory() {
    pass(MemoryKind::Uncached);
}

#[test]
fn data_passes_in_the_model_of_incoherent_memory() {
    pass(MemoryKind::Model);
}
