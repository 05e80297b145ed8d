//! Buffers: none is handed out twice, and free memory goes back to the manager.

use crate::common::{PATIENCE, Pool};
use proptest::prelude::*;
use std::collections::BTreeMap;
use unrack_pool::arena::MOST_SMALL;
use unrack_pool::wire::{Access, Denied, ListingEntry};
use unrack_pool::{Buffer, Client, Error, LINE, SECTION};
use unrack_units::Bytes;

fn free_bytes(client: &Client) -> u64 {
    let listed = client.list().expect("a manager");
    let free = listed.iter().find_map(|listed| match listed {
        ListingEntry::Pool { free_bytes, .. } => Some(*free_bytes),
        _ => None,
    });
    free.expect("a pool is listed")
}

/// Writes a buffer's number into its first and last line.
fn mark(buffer: &Buffer, mark: u64) {
    let last = buffer.capacity() as usize / 8 - 1;
    // SAFETY: the buffer is this test's, aligned to lines, and long enough.
    unsafe {
        (buffer.as_ptr() as *mut u64).write(mark);
        (buffer.as_ptr() as *mut u64).add(last).write(mark);
    }
}

fn check(buffer: &Buffer, mark: u64) {
    let last = buffer.capacity() as usize / 8 - 1;
    // SAFETY: the buffer is this test's, aligned to lines, and was written at both places.
    let found =
        unsafe { [(buffer.as_ptr() as *mut u64).read(), (buffer.as_ptr() as *mut u64).add(last).read()] };
    assert_eq!(found, [mark, mark], "somebody else wrote to the buffer at {:#x}", buffer.offset());
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        10 => 1u64..1024,
        4 => 1u64..100_000,
        2 => 100_000u64..MOST_SMALL + 2,
        1 => MOST_SMALL..4 * SECTION,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Allocates and frees at random, by arena and caches: buffers never overlap, and in the end all are free.
    #[test]
    fn buffers_never_overlap(steps in prop::collection::vec((0u8..5, size(), any::<prop::sample::Index>()), 1..400)) {
        let pool = Pool::new(|options| {
            options.capacity = Bytes::new(64 << 20);
            options.region_sections = 2;
        });
        let client = pool.client("one");
        let arena = client.arena();
        let mut caches = [arena.cache(), arena.cache()];
        let mut held: BTreeMap<u64, (Buffer, u64)> = BTreeMap::new();
        for (number, (step, bytes, which)) in steps.into_iter().enumerate() {
            let allocated = match step {
                0 => arena.alloc(bytes),
                1 => caches[0].alloc(bytes),
                2 => caches[1].alloc(bytes),
                _ if held.is_empty() => continue,
                _ => {
                    let offset = *which.get(&held.keys().copied().collect::<Vec<_>>());
                    let (buffer, number) = held.remove(&offset).unwrap();
                    check(&buffer, number);
                    match number % 3 {
                        0 => arena.free(buffer),
                        cache => caches[cache as usize - 1].free(buffer),
                    }
                    continue;
                }
            };
            let buffer = match allocated {
                Ok(buffer) => buffer,
                Err(Error::Denied(Denied::Full { .. })) => continue,
                Err(other) => panic!("{other}"),
            };
            prop_assert!(buffer.capacity() >= bytes);
            prop_assert!((buffer.as_ptr() as usize | buffer.capacity() as usize).is_multiple_of(LINE));
            let before = held.range(..=buffer.offset()).next_back();
            prop_assert!(before.is_none_or(|(at, (other, _))| at + other.capacity() <= buffer.offset()));
            let after = held.range(buffer.offset()..).next();
            prop_assert!(after.is_none_or(|(at, _)| buffer.offset() + buffer.capacity() <= *at));
            mark(&buffer, number as u64);
            held.insert(buffer.offset(), (buffer, number as u64));
        }
        for (buffer, number) in held.into_values() {
            check(&buffer, number);
            arena.free(buffer);
        }
        drop(caches);
        prop_assert_eq!(arena.usage().used_bytes, 0);
        drop(arena);
        prop_assert_eq!(free_bytes(&client), 64 << 20);
    }
}

#[test]
fn spare_memory_is_kept_as_far_as_was_said_and_never_in_the_way() {
    let pool = Pool::new(|options| {
        options.capacity = Bytes::new(64 << 20);
        options.region_sections = 2;
    });
    let client = pool.client("one");
    let arena = client.arena();
    arena.keep_spare(u64::MAX);
    let parts = [0; 5].map(|_| arena.alloc(8 << 20).expect("there is room"));
    let places = parts.each_ref().map(Buffer::offset);
    parts.into_iter().for_each(|part| arena.free(part));
    assert_eq!(arena.usage().held_bytes, 40 << 20);
    let again = arena.alloc(8 << 20).expect("some is kept");
    assert!(places.contains(&again.offset()), "it is used again");
    arena.free(again);
    // What is kept is in pieces.
    let large = arena.alloc(48 << 20).expect("they make room");
    arena.free(large);
    arena.keep_spare(0);
    assert!(arena.usage().held_bytes <= 4 << 20, "{:?}", arena.usage());
}

#[test]
fn excess_goes_back_while_the_arena_lives() {
    let pool = Pool::new(|options| options.region_sections = 1);
    let client = pool.client("one");
    let arena = client.arena();
    let buffers: Vec<_> = (0..20).map(|_| arena.alloc(MOST_SMALL).expect("there is room")).collect();
    assert_eq!(free_bytes(&client), (64 << 20) - 20 * (1 << 20));
    assert_eq!(arena.usage().used_bytes, 20 << 20);
    buffers.into_iter().for_each(|buffer| arena.free(buffer));
    // A section or two stay: the current one of a class, and a spare one.
    assert!(arena.usage().held_bytes <= 2 * SECTION, "{:?} of nothing used", arena.usage());
    assert_eq!(free_bytes(&client) + arena.usage().held_bytes, 64 << 20);
}

#[test]
fn memory_moves_from_one_size_to_another() {
    let pool = Pool::new(|options| options.capacity = Bytes::new(4 << 20));
    let client = pool.client("one");
    let arena = client.arena();
    for bytes in [64, 4096, 100_000, MOST_SMALL, 2 * SECTION, 64] {
        let mut buffers = Vec::new();
        let refused = loop {
            match arena.alloc(bytes) {
                Ok(buffer) => buffers.push(buffer),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Denied(Denied::Full { .. })), "{refused}");
        assert!(
            buffers.len() as u64 >= (4 << 20) / (bytes * 5 / 4 + LINE as u64),
            "{bytes}: {}",
            buffers.len()
        );
        buffers.into_iter().for_each(|buffer| arena.free(buffer));
    }
}

/// Threads allocate, hand over and free; every buffer belongs to one thread at a time.
#[test]
fn threads_share_an_arena() {
    let pool = Pool::new(|options| options.capacity = Bytes::new(256 << 20));
    let client = pool.client("one");
    let arena = client.arena();
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<(Buffer, u64)>(200);
        let receiver = std::sync::Mutex::new(receiver);
        let receiver = std::sync::Arc::new(receiver);
        for thread in 0..2u64 {
            let (arena, sender) = (arena.clone(), sender.clone());
            scope.spawn(move || {
                let mut cache = arena.cache();
                for number in 0..30_000u64 {
                    let bytes = 1 + (number * 7919 + thread) % 3000;
                    let buffer = if number % 4 == 0 { arena.alloc(bytes) } else { cache.alloc(bytes) };
                    let buffer = buffer.expect("there is room");
                    mark(&buffer, number << 1 | thread);
                    sender.send((buffer, number << 1 | thread)).expect("somebody receives");
                }
            });
        }
        drop(sender);
        for thread in 0..2 {
            let (arena, receiver) = (arena.clone(), receiver.clone());
            scope.spawn(move || {
                let mut cache = arena.cache();
                loop {
                    let received = receiver.lock().unwrap().recv();
                    let Ok((buffer, number)) = received else { break };
                    check(&buffer, number);
                    if (number + thread) % 3 == 0 { arena.free(buffer) } else { cache.free(buffer) }
                }
            });
        }
    });
    assert_eq!(arena.usage().used_bytes, 0);
}

/// A peer finds each buffer that it is told of, also in segments leased after the arena was shared.
#[test]
fn a_shared_arena_stays_shared_as_it_grows() {
    let pool = Pool::new(|_| {});
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").expect("the name is free");
    let (near, far) = std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let offer = service.accept(PATIENCE).unwrap().expect("a caller");
            offer.accept(b"", 0, &[]).expect("the caller is there")
        });
        let (near, _) = client.open("kv", b"", 0, &[], PATIENCE).expect("it is accepted");
        (near, far.join().unwrap())
    });
    let arena = client.arena();
    let early = arena.alloc(100).expect("there is room");
    arena.share_with(&near, Access::Read).expect("the server is there");
    let private = client.arena();
    let secret = private.alloc(100).expect("there is room");
    let mut buffers = vec![early];
    for number in 0..40u64 {
        buffers.push(arena.alloc(1 << (10 + number % 11)).expect("there is room"));
    }
    for (number, buffer) in buffers.iter().enumerate() {
        mark(buffer, number as u64);
        let found = far.resolve(buffer.offset(), buffer.capacity(), Access::Read).expect("it was granted");
        // SAFETY: granted, long enough, and nobody writes it now.
        assert_eq!(unsafe { (found.as_ptr() as *const u64).read() }, number as u64);
    }
    assert_eq!(far.resolve(secret.offset(), 8, Access::Read), None);
    private.free(secret);
    drop(near);
    // The peer is gone: the arena stays usable.
    buffers.push(arena.alloc(MOST_SMALL).expect("there is room"));
    buffers.into_iter().for_each(|buffer| arena.free(buffer));
}

#[test]
#[should_panic(expected = "freed that is free")]
fn a_buffer_that_is_freed_twice_is_noticed() {
    let pool = Pool::new(|_| {});
    let client = pool.client("one");
    let arena = client.arena();
    let buffer = arena.alloc(64).expect("there is room");
    let offset = buffer.offset();
    arena.free(buffer);
    // SAFETY: the buffer is not ours any more; the panic that this causes is what the test checks.
    arena.free(unsafe { arena.buffer(offset) });
}
