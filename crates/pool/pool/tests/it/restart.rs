//! Managers that take over from one another.

use crate::common::{PATIENCE, folder::Folder, raw::Raw};
use std::time::{Duration, Instant};
use unrack_pool::manager::{Backing, Error as ManagerError};
use unrack_pool::wire::{Access, Cause, Denied, ListingEntry, Request};
use unrack_pool::{Channel, Client, Error, Manager, Options};
use unrack_units::Bytes;

fn options(folder: &Folder, backing: Backing) -> Options {
    let mut options = Options::new(folder.path("pool.sock"), Bytes::new(32 << 20));
    options.backing = backing;
    options.per_client = Some(crate::common::ALL);
    options
}

fn pair(server: &Client, client: &Client) -> (Channel, Channel) {
    let service = server.register("kv").expect("the name is free");
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let offer = service.accept(PATIENCE).unwrap().expect("a caller");
            offer.accept(b"", 0, &[]).expect("the caller is there")
        });
        let (near, _) = client.open("kv", b"", 0, &[], PATIENCE).expect("it is accepted");
        (near, far.join().unwrap())
    })
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn everything_survives(backing: impl Fn(&Folder) -> Backing) {
    let folder = Folder::new();
    let options = options(&folder, backing(&folder));
    let manager = Manager::start(&options).expect("a manager starts");
    let server = Client::connect_as(manager.socket(), "server").unwrap();
    let client = Client::connect_as(manager.socket(), "client").unwrap();
    let (near, far) = pair(&server, &client);
    let kept = server.register("kept").expect("the name is free");
    let arena = client.arena();
    arena.share_with(&near, Access::Read).expect("the server is there");
    let buffer = arena.alloc(5000).expect("there is room");
    // SAFETY: the buffer is ours, and long enough.
    unsafe { std::ptr::write_bytes(buffer.as_ptr(), 0x77, 5000) };
    let before = server.list().expect("a manager");

    manager.stop();
    let without = arena.alloc(5000).expect("no manager is needed for it");
    let second = Manager::start(&options).expect("it takes over");

    until("all are back", || client.list().is_ok() && server.list().is_ok());
    assert_eq!(server.list().unwrap(), before, "the same is there as before");
    let found = far.resolve(buffer.offset(), 5000, Access::Read).expect("it was granted before");
    // SAFETY: granted, and mapped.
    assert_eq!(unsafe { found.add(4999).read() }, 0x77);

    // All goes on: leases, grants, channels, names.
    let large = arena.alloc(5 << 20).expect("there is room");
    assert!(far.resolve(large.offset(), 5 << 20, Access::Read).is_some(), "granted by the new manager");
    assert!(matches!(client.register("kept"), Err(Error::Denied(Denied::NameTaken { .. }))));
    let (other, more) = pair(&server, &client);
    assert_ne!(other.id(), near.id());
    assert_ne!(other.queues(), near.queues());
    drop((other, more, kept));

    // Ends are reported, too: the second manager tells the server that the client is gone.
    for buffer in [buffer, without, large] {
        arena.free(buffer);
    }
    drop((near, arena, client));
    until("the server is told", || far.gone() == Some(Cause::Closed));
    drop((far, server));
    until("nothing is left", || {
        let observer = Client::connect_as(&options.socket, "observer").unwrap();
        let listed = observer.list().unwrap();
        let [ListingEntry::Pool { free_bytes, capacity_bytes, .. }, ListingEntry::Client { .. }] = listed[..]
        else {
            return false;
        };
        free_bytes == capacity_bytes
    });
    second.stop();
    let left: Vec<_> =
        std::fs::read_dir(folder.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The queue area of a channel that is offered to a server on its way back stays the channel's: freed, it would be leased
/// again while the server has it mapped.
fn an_offer_stands(is_away_when_asked: bool) {
    let folder = Folder::new();
    let options = options(&folder, Backing::Memfd { huge: false });
    let manager = Manager::start(&options).expect("a manager starts");
    let mut server = Raw::new(manager.socket());
    server.ask(Request::Register { service: "kv".into() }).0.expect("the name is free");
    manager.stop();
    let second = Manager::start(&options).expect("it takes over");
    let client = Client::connect_as(second.socket(), "client").unwrap();
    let come_back = || Raw::again(second.socket(), server.id);
    let channels = || {
        client
            .list()
            .unwrap()
            .into_iter()
            .filter(|entry| matches!(entry, ListingEntry::Channel { .. }))
            .count()
    };
    std::thread::scope(|scope| {
        let mut back = (!is_away_when_asked).then(come_back);
        let opened = scope.spawn(|| client.open("kv", b"", 0, &[], PATIENCE));
        until("it is offered", || channels() == 1);
        let server = back.get_or_insert_with(come_back);
        server.ask(Request::Keep { channels: Vec::new() }).0.expect("it is back");
        server.ask(Request::Register { service: "kv".into() }).0.expect("it is still its name");
        server.ask(Request::Resumed).0.expect("it was on its way back");
        assert_eq!(channels(), 1, "the offer stands");
        server.accept();
        opened.join().unwrap().expect("it is accepted");
    });
}

#[test]
fn an_offer_to_a_server_that_is_away_stands() {
    an_offer_stands(true);
}

#[test]
fn an_offer_to_a_server_that_is_just_coming_back_stands() {
    an_offer_stands(false);
}

#[test]
fn everything_survives_in_files_without_a_name() {
    everything_survives(|_| Backing::Memfd { huge: false });
}

#[test]
fn everything_survives_in_a_directory() {
    let segments = Folder::in_memory();
    everything_survives(|_| Backing::Directory(segments.path("")));
    assert_eq!(std::fs::read_dir(segments.path("")).unwrap().count(), 0);
}

/// Checks this even if the manager is stopped before it was told that they left.
#[test]
fn files_that_no_segment_has_are_removed_by_the_next_manager() {
    let (folder, segments) = (Folder::new(), Folder::in_memory());
    let options = options(&folder, Backing::Directory(segments.path("")));
    let manager = Manager::start(&options).expect("a manager starts");
    let client = Client::connect_as(manager.socket(), "client").unwrap();
    let segment = client.lease(1).expect("there is room");
    manager.stop();
    // As a manager leaves it that is killed between making a file and noting its segment.
    std::fs::write(segments.path("segment-000001000000"), b"").unwrap();
    std::fs::write(segments.path("mine"), b"").unwrap();
    let _second = Manager::start(&options).expect("it takes over");
    let mut left: Vec<_> =
        std::fs::read_dir(segments.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let kept = format!("segment-{:012x}", segment.extent().offset);
    assert_eq!(left, ["mine".to_string(), kept].map(std::ffi::OsString::from));
}

#[test]
fn nothing_is_left_when_all_have_left() {
    for _ in 0..20 {
        let folder = Folder::new();
        let manager = Manager::start(&options(&folder, Backing::Memfd { huge: false })).unwrap();
        let clients: Vec<Client> = (0..8).map(|_| Client::connect(manager.socket()).unwrap()).collect();
        drop(clients);
        manager.stop();
        assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0);
    }
}

#[test]
fn one_manager_at_a_socket() {
    let folder = Folder::new();
    let options = options(&folder, Backing::Memfd { huge: false });
    let manager = Manager::start(&options).unwrap();
    assert!(matches!(Manager::start(&options), Err(ManagerError::Served(_))));
    let client = Client::connect_as(manager.socket(), "one").unwrap();
    manager.stop();

    // Another pool cannot be started while a program uses this one.
    let mut other = options.clone();
    other.capacity = Bytes::new(64 << 20);
    assert!(matches!(Manager::start(&other), Err(ManagerError::OtherPool(_))));
    drop(client);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let folder = Folder::new();
    let options = options(&folder, Backing::Memfd { huge: false });
    let absent = folder.path("absent").join("x");
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = options.clone();
        change(&mut options);
        Manager::start(&options).map(drop).expect_err("it makes no sense").to_string()
    };
    assert!(refused(&|options| options.capacity = Bytes::new(0)).contains("whole number"));
    assert!(refused(&|options| options.capacity = Bytes::new(3 << 20)).contains("whole number"));
    assert!(refused(&|options| options.capacity = Bytes::new(!0x1f_ffff)).contains("whole number"));
    assert!(refused(&|options| options.queue_bytes = Bytes::new(100)).contains("whole pages"));
    assert!(refused(&|options| options.queue_bytes = Bytes::new(4 << 20)).contains("at most 2 MiB"));
    assert!(refused(&|options| options.socket = absent.clone()).contains("absent"));
}

/// Leftovers at the socket of a manager that was killed are no hindrance, and neither is an invalid ledger.
#[test]
fn there_is_nothing_to_clean_up() {
    let folder = Folder::new();
    let options = options(&folder, Backing::Memfd { huge: false });
    std::fs::write(&options.socket, b"not a socket").unwrap();
    std::fs::write(folder.path("pool.sock.ledger"), vec![0xa5; 100_000]).unwrap();
    let manager = Manager::start(&options).expect("it starts all the same");
    assert!(Client::connect_as(manager.socket(), "one").is_ok());
}

/// A segment that is withdrawn, unpinned, or both while no manager is there is free with the next one, also if that one
/// repeats the grant.
fn withdrawn_segments_are_unmapped_across_managers(backing: Backing) {
    let folder = Folder::new();
    let options = options(&folder, backing);
    let manager = Manager::start(&options).expect("a manager starts");
    let server = Client::connect_as(manager.socket(), "server").unwrap();
    let client = Client::connect_as(manager.socket(), "client").unwrap();
    let (near, far) = pair(&server, &client);
    // SAFETY: this test uses no pointers that are not pinned.
    unsafe { far.unmap_withdrawn() };
    let segments = [0; 3].map(|_| client.lease(1).expect("there is room"));
    let places = segments.each_ref().map(|segment| segment.extent().offset);
    for segment in &segments {
        near.grant(segment, Access::Read).expect("the server is there");
    }
    let mut pins = places.map(|at| Some(far.pin(at, 64, Access::Read).expect("it was granted").1));
    let [released_before, released_after, released_while_away] = segments;
    drop(released_before);
    until("it is withdrawn", || far.pin(places[0], 64, Access::Read).is_none());
    manager.stop();
    drop(released_while_away);
    drop(pins[0].take());
    let second = Manager::start(&options).expect("it takes over");
    until("all are back", || client.list().is_ok() && server.list().is_ok());
    drop(released_after);
    drop(pins);
    until("all are free", || {
        !client.list().unwrap().iter().any(|entry| matches!(entry, ListingEntry::Segment { .. }))
    });
    let again = client.lease(3).expect("there is room");
    near.grant(&again, Access::Read).expect("the server is there");
    assert!(far.pin(again.extent().offset, 3 << 21, Access::Read).is_some());
    drop((near, far, again));
    second.stop();
}

#[test]
fn withdrawn_segments_in_memory_are_unmapped_across_managers() {
    withdrawn_segments_are_unmapped_across_managers(Backing::Memfd { huge: false });
}

#[test]
fn withdrawn_segments_in_a_directory_are_unmapped_across_managers() {
    let segments = Folder::in_memory();
    withdrawn_segments_are_unmapped_across_managers(Backing::Directory(segments.path("")));
    assert_eq!(std::fs::read_dir(segments.path("")).unwrap().count(), 0);
}
