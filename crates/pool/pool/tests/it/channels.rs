//! Processes find each other, share memory, and are told of each other's ends.

use crate::common::{PATIENCE, Pool};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::wire::{Access, Cause, Denied, ListingEntry};
use unrack_pool::{Channel, Client, Error, SECTION};

fn pair(pool: &Pool) -> (Client, Client, Channel, Channel) {
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").expect("the name is free");
    let (near, far) = std::thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let mut offer = service.accept(PATIENCE).expect("a manager").expect("a caller");
            assert_eq!(offer.greeting().bytes, b"hello");
            assert_eq!(offer.peer().name, "client");
            assert_eq!(offer.peer().pid, std::process::id());
            offer.accept(b"welcome", 2, &[]).expect("the caller is there")
        });
        let (near, greeting) = client.open("kv", b"hello", 1, &[], PATIENCE).expect("it is accepted");
        assert_eq!(greeting.bytes, b"welcome");
        (near, accepted.join().expect("no panic"))
    });
    (client, server, near, far)
}

/// Returns the entry at a byte offset of a queue area.
fn entry(channel: &Channel, at: usize) -> &AtomicU64 {
    // SAFETY: a queue area is at least a page, and aligned; atomics may be shared.
    unsafe { channel.queue_base().cast::<AtomicU64>().add(at / 8).as_ref() }
}

#[test]
fn a_service_that_is_closed_accepts_nobody() {
    let pool = Pool::new(|_| {});
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").expect("the name is free");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| service.accept(Duration::MAX).map(|offer| offer.is_none()));
        std::thread::sleep(Duration::from_millis(5));
        service.close();
        assert!(waits.join().unwrap().expect("the manager is there"));
    });
    assert!(service.accept(PATIENCE).expect("the manager is there").is_none());
    std::thread::scope(|scope| {
        let opens = scope.spawn(|| client.open("kv", b"", 0, &[], PATIENCE).map(drop));
        std::thread::sleep(Duration::from_millis(5));
        // Clients that asked meanwhile are refused.
        drop(service);
        assert!(opens.join().unwrap().is_err());
    });
}

#[test]
fn two_processes_share_a_queue_area() {
    let pool = Pool::new(|_| {});
    let (_client, _server, near, far) = pair(&pool);
    assert_eq!(near.queues(), far.queues());
    assert_eq!(near.queues().bytes, 64 << 10);
    entry(&near, 128).store(7, Ordering::Release);
    assert_eq!(entry(&far, 128).load(Ordering::Acquire), 7);
    assert_eq!(entry(&far, 0).load(Ordering::Acquire), 0, "queue areas are zeros at first");
}

#[test]
fn a_peer_reads_what_it_was_granted_and_nothing_else() {
    let pool = Pool::new(|_| {});
    let (client, server, near, far) = pair(&pool);
    let segment = client.lease(2).expect("the pool is empty");
    let other = client.lease(1).expect("the pool is empty");
    let at = segment.extent().offset;
    // SAFETY: only this test uses the segment, and it is mapped.
    unsafe { std::ptr::write_bytes(segment.base(), 0x5a, 4096) };
    assert_eq!(far.resolve(at, 1, Access::Read), None, "nothing was granted yet");

    near.grant(&segment, Access::Read).expect("the server is there");
    let found = far.resolve(at, 2 * SECTION, Access::Read).expect("it was granted");
    // SAFETY: granted, and mapped until the channel is dropped.
    assert_eq!(unsafe { found.add(4095).read() }, 0x5a);
    assert_eq!(far.resolve(at, 1, Access::Write), None, "only to be read");
    for (offset, bytes) in [
        (at, 2 * SECTION + 1),
        (at + 2 * SECTION, 1),
        (at.wrapping_sub(1), 1),
        (at + 1, u64::MAX),
        (u64::MAX, 2),
        (other.extent().offset, 1),
        (near.queues().offset, 8),
    ] {
        assert_eq!(far.resolve(offset, bytes, Access::Read), None, "{bytes} bytes at {offset}");
    }
    assert!(matches!(near.grant(&segment, Access::Write), Err(Error::Denied(Denied::Sealed)) | Ok(())));

    near.grant(&other, Access::Write).expect("the server is there");
    let found = far.resolve(other.extent().offset, 64, Access::Write).expect("it was granted");
    // SAFETY: granted for writing, and nobody else uses it.
    unsafe { found.write(9) };
    // SAFETY: leased, mapped, and nobody writes it now.
    assert_eq!(unsafe { other.base().read() }, 9);
    drop((server, client));
}

#[test]
fn a_segment_belongs_to_one_and_goes_back() {
    let pool = Pool::new(|options| options.capacity = unrack_units::Bytes::new(8 << 20));
    let client = pool.client("one");
    let all = client.lease(4).expect("the pool is empty");
    match client.lease(1).err() {
        Some(Error::Denied(Denied::Full { asked: 1, free: 0, all: 4 })) => {}
        other => panic!("a full pool: {other:?}"),
    }
    drop(all);
    assert!(client.lease(4).is_ok());
    let free = client.list().expect("a manager").iter().find_map(|listed| match listed {
        ListingEntry::Pool { free_bytes, .. } => Some(*free_bytes),
        _ => None,
    });
    assert_eq!(free, Some(8 << 20));
}

/// Checks that granted memory stays readable until the channel is closed, even if its owner is gone, and is free
/// afterwards.
#[test]
fn peers_are_told_and_nothing_is_pulled_from_under_them() {
    let pool = Pool::new(|_| {});
    let (client, server, near, far) = pair(&pool);
    let segment = client.lease(1).expect("the pool is empty");
    near.grant(&segment, Access::Read).expect("the server is there");
    let found = far.resolve(segment.extent().offset, 8, Access::Read).expect("it was granted");
    let start = Instant::now();
    drop((near, segment, client));
    while far.gone().is_none() {
        server.wakeup(2).sleep(Some(PATIENCE), || far.gone().is_some());
        assert!(start.elapsed() < PATIENCE, "nobody told");
    }
    assert_eq!(far.gone(), Some(Cause::Closed));
    // SAFETY: mapped until the channel is dropped.
    assert_eq!(unsafe { found.read_volatile() }, 0);
    let segments = |server: &Client| {
        let listed = server.list().expect("a manager");
        listed.iter().filter(|listed| matches!(listed, ListingEntry::Segment { .. })).count()
    };
    assert_eq!(segments(&server), 1, "it is still granted");
    drop(far);
    assert_eq!(segments(&server), 0);
}

#[test]
fn a_service_says_why_not() {
    let pool = Pool::new(|_| {});
    let (server, client) = (pool.client("server"), pool.client("client"));
    let open = |patience| client.open("kv", b"", 0, &[], patience).map(drop);
    assert!(matches!(open(PATIENCE), Err(Error::Denied(Denied::NoService(name))) if name == "kv"));

    let service = server.register("kv").expect("the name is free");
    assert!(matches!(server.register("kv"), Err(Error::Registered(_))));
    assert!(matches!(client.register("kv"), Err(Error::Denied(Denied::NameTaken { .. }))));
    assert!(matches!(server.register("a\nb"), Err(Error::Denied(Denied::BadName))));
    std::thread::scope(|scope| {
        scope.spawn(|| service.accept(PATIENCE).unwrap().expect("a caller").refuse(7, "version 3 only"));
        match open(PATIENCE) {
            Err(Error::Denied(Denied::Refused(refused))) => {
                assert_eq!((refused.code, refused.text.as_str()), (7, "version 3 only"));
            }
            other => panic!("refused: {other:?}"),
        }
    });

    // The service does not accept: the caller gives up, and the offer is taken back.
    assert!(matches!(open(Duration::from_millis(20)), Err(Error::TimedOut(_))));
    let offer = service.accept(PATIENCE).unwrap().expect("the offer had come");
    assert!(offer.accept(b"", 0, &[]).is_err(), "the caller left");

    // A service that ends while a caller waits for it.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| open(PATIENCE));
        let offer = service.accept(PATIENCE).unwrap().expect("a caller");
        drop(offer);
        assert!(waiting.join().unwrap().is_err());
    });
    drop(service);
    assert!(matches!(open(PATIENCE), Err(Error::Denied(Denied::NoService(_)))));
}

#[test]
fn descriptors_pass_beside_greetings() {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    let pool = Pool::new(|_| {});
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").expect("the name is free");
    let (mut reader, writer) = std::io::pipe().expect("descriptors");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut offer = service.accept(PATIENCE).unwrap().expect("a caller");
            let passed = offer.greeting().passed.pop().expect("a descriptor");
            std::fs::File::from(passed).write_all(b"x").expect("it is the pipe");
            drop(offer.accept(b"", 0, &[]).expect("the caller is there"));
        });
        client.open("kv", b"", 0, &[writer.as_fd()], PATIENCE).expect("it is accepted");
    });
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("a pipe");
    assert_eq!(text, "x", "and nobody else has the other end");
}

#[test]
fn nobody_is_there() {
    let folder = crate::common::folder::Folder::new();
    let path = folder.path("none.sock");
    assert!(matches!(Client::connect(&path), Err(Error::NoManager(_))));
}

/// Segments that the manager lists.
fn segments(client: &Client) -> usize {
    let listed = client.list().expect("a manager");
    listed.iter().filter(|one| matches!(one, ListingEntry::Segment { .. })).count()
}

fn eventually(mut holds: impl FnMut() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_withdrawn_segment_is_unmapped_when_nothing_in_it_is_pinned() {
    let pool = Pool::new(|_| {});
    let (client, _server, near, far) = pair(&pool);
    // SAFETY: this test uses pinned pointers only.
    unsafe { far.unmap_withdrawn() };
    // More than one channel may have at a time.
    for round in 0..600u32 {
        let segment = client.lease(1).expect("what was given back is free");
        let at = segment.extent().offset;
        // SAFETY: only this test uses the segment, and it is mapped.
        unsafe { segment.base().cast::<u32>().write(round) };
        near.grant(&segment, Access::Read).expect("the server is there");
        let (found, pin) = far.pin(at, 4, Access::Read).expect("it was granted");
        let (_, again) = far.pin(at + 4, 4, Access::Read).expect("it was granted");
        drop(segment);
        if round % 100 == 0 {
            eventually(|| far.pin(at, 4, Access::Read).is_none(), "it is withdrawn");
        }
        drop(again);
        assert_eq!(segments(&client), 1, "it is pinned");
        // SAFETY: pinned.
        assert_eq!(unsafe { found.cast::<u32>().read() }, round);
        drop(pin);
        eventually(|| segments(&client) == 0, "it is unmapped");
    }
    assert!(far.resolve(0, 4, Access::Read).is_none());
}

#[test]
fn a_withdrawn_segment_without_pins_is_unmapped_at_once() {
    let pool = Pool::new(|_| {});
    let (client, _server, near, far) = pair(&pool);
    let kept = client.lease(1).expect("the pool is empty");
    near.grant(&kept, Access::Read).expect("the server is there");
    let first = client.lease(1).expect("there is room");
    near.grant(&first, Access::Read).expect("the server is there");
    assert!(far.resolve(first.extent().offset, 4, Access::Read).is_some());
    let offset = first.extent().offset;
    drop(first);
    eventually(|| far.known(offset, 4, Access::Read).is_none(), "it is withdrawn");
    assert_eq!(segments(&client), 2, "it stays until the channel is dropped");
    // SAFETY: this test uses no pointers.
    unsafe { far.unmap_withdrawn() };
    drop(kept);
    eventually(|| segments(&client) == 1, "it is unmapped");
    drop(far);
    eventually(|| segments(&client) == 0, "so is the other");
}
