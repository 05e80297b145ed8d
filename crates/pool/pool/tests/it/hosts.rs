//! Hosts that share a device: here managers of one machine over one file, and, in the model of incoherent memory,
//! with copies of their own.

use crate::common::{ALL, PATIENCE, doorbells::Doorbells, folder::Folder};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::{MemoryKind, SharedMemory};
use unrack_pool::listing::Listing;
use unrack_pool::manager::{Format, HostOptions, format};
use unrack_pool::wire::{Access, Cause, Denied, HostStanding};
use unrack_pool::{Channel, Client, Error, Manager, Options, SECTION};
use unrack_units::Bytes;

const SILENCE: Duration = Duration::from_millis(400);

/// A device, and managers of several hosts.
struct Rack {
    folder: Folder,
    mode: MemoryKind,
    paths: Vec<PathBuf>,
}

impl Rack {
    fn new(mode: MemoryKind, devices: usize, bytes: u64, hosts: u32) -> Rack {
        let folder = Folder::in_memory();
        let paths: Vec<PathBuf> = (0..devices).map(|at| folder.path(&format!("device{at}"))).collect();
        for path in &paths {
            std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
        }
        let rack = Rack { folder, mode, paths };
        format(&rack.format(hosts)).expect("it is formatted");
        rack
    }

    fn format(&self, hosts: u32) -> Format {
        Format {
            paths: self.paths.clone(),
            granularity: 4096,
            hosts,
            queue_bytes: Bytes::new(64 << 10),
            mode: self.mode,
            force: false,
        }
    }

    fn options(&self, host: u32) -> Options {
        let place = HostOptions { name: format!("host{host}"), silence: SILENCE, ..HostOptions::new(host) };
        let socket = self.folder.path(&format!("pool{host}.sock"));
        let mut options = Options::for_host(socket, self.paths.clone(), place).expect("it is formatted");
        options.per_client = Some(ALL);
        options
    }

    /// Starts the manager of a host with a doorbell.
    fn manager_with(&self, host: u32, doorbells: &Arc<Doorbells>) -> Manager {
        let mut options = self.options(host);
        options.host.as_mut().expect("it has hosts").doorbell = Some(doorbells.of(host));
        Manager::start(&options).expect("a manager starts")
    }

    fn manager(&self, host: u32) -> Manager {
        Manager::start(&self.options(host)).expect("a manager starts")
    }
}

fn modes() -> Vec<MemoryKind> {
    vec![MemoryKind::Coherent, MemoryKind::Incoherent, MemoryKind::Model]
}

/// Waits until what a client lists is so.
fn until(client: &Client, what: &str, is_so: impl Fn(&Listing) -> bool) -> Listing {
    let start = Instant::now();
    loop {
        let listing = Listing::read(client).unwrap();
        if is_so(&listing) {
            return listing;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {listing}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn linked(client: &Client) {
    until(client, "linked", |listing| listing.hosts.iter().all(|host| host.is_here || host.is_linked));
}

/// Opens a channel between a client and a server of two hosts, and returns both sides.
fn channel(client: &Client, server: &Client) -> (Channel, Channel) {
    let service = server.register("kv").unwrap();
    let is_known = |listing: &Listing| !listing.services.is_empty();
    until(client, "nothing serves `kv`", is_known);
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let caller = service.accept(PATIENCE).unwrap().expect("a caller comes");
            caller.accept(b"", 3, &[]).unwrap()
        });
        let (near, _) = client.open("kv", b"", 5, &[], PATIENCE).unwrap();
        (near, far.join().unwrap())
    })
}

/// A wake reaches the wakeup that the other side named, in either direction. With no time-out, one that is lost would
/// hang.
#[test]
fn with_doorbells_each_side_wakes_the_other() {
    for mode in modes() {
        let rack = Rack::new(mode, 1, 24 << 20, 2);
        let doorbells = Doorbells::new(2);
        let (here, there) = (rack.manager_with(0, &doorbells), rack.manager_with(1, &doorbells));
        let client = Client::connect_as(here.socket(), "client").unwrap();
        let server = Client::connect_as(there.socket(), "server").unwrap();
        let (near, far) = channel(&client, &server);
        assert!(near.rings() && far.rings());
        for (from, sleeper, wakeup) in [(&near, &server, 3), (&far, &client, 5)].repeat(20) {
            let (is_asleep, is_there) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_there.load(Ordering::SeqCst) {
                        sleeper.wakeup(wakeup).sleep(None, || {
                            is_asleep.store(true, Ordering::SeqCst);
                            is_there.load(Ordering::SeqCst)
                        });
                    }
                });
                while !is_asleep.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                is_there.store(true, Ordering::SeqCst);
                assert!(from.ring_far());
            });
        }
        // Whoever rings all the time keeps nobody from anything else.
        (0..20_000).for_each(|_| _ = near.ring_far());
        let (other, _far) = {
            drop(far);
            channel(&client, &server)
        };
        assert!(other.rings());
    }
}

#[test]
fn a_host_without_a_doorbell_is_not_rung() {
    let rack = Rack::new(MemoryKind::Coherent, 1, 24 << 20, 2);
    let (here, there) = (rack.manager_with(0, &Doorbells::new(1)), rack.manager(1));
    let client = Client::connect_as(here.socket(), "client").unwrap();
    let server = Client::connect_as(there.socket(), "server").unwrap();
    let (near, far) = channel(&client, &server);
    assert!(!near.rings() && !far.rings());
    assert!(near.ring_far() && far.ring_far(), "the managers ignore it");
    assert_eq!(near.gone(), None);
}

#[test]
fn a_host_that_has_left_shows_no_doorbell() {
    let rack = Rack::new(MemoryKind::Coherent, 1, 24 << 20, 2);
    let doorbells = Doorbells::new(2);
    let (here, there) = (rack.manager_with(0, &doorbells), rack.manager_with(1, &doorbells));
    let client = Client::connect_as(here.socket(), "client").unwrap();
    linked(&client);
    let other = |listing: &Listing| (listing.hosts[1].has_doorbell, listing.hosts[1].standing);
    assert_eq!(other(&Listing::read(&client).unwrap()), (true, HostStanding::Serving));
    drop(there);
    let left = until(&client, "left", |listing| other(listing).1 == HostStanding::Left);
    assert!(!other(&left).0, "{left}");
}

#[test]
fn what_one_host_grants_another_reads_and_all_comes_back() {
    for mode in modes() {
        let rack = Rack::new(mode, 2, 24 << 20, 3);
        let (here, there) = (rack.manager(0), rack.manager(2));
        let client = Client::connect_as(here.socket(), "client").unwrap();
        let server = Client::connect_as(there.socket(), "server").unwrap();
        linked(&client);
        let all = Listing::read(&client).unwrap().free_bytes;
        let service = server.register("kv").unwrap();
        until(&client, "nothing is taken", |listing| listing.free_bytes == all);
        let (near, far) = std::thread::scope(|scope| {
            let far = scope.spawn(|| {
                let mut caller = service.accept(PATIENCE).unwrap().expect("a caller comes");
                assert_eq!(caller.greeting().bytes, b"hello");
                caller.accept(b"welcome", 0, &[]).unwrap()
            });
            let start = Instant::now();
            let opened = loop {
                match client.open("kv", b"hello", 0, &[], PATIENCE) {
                    Err(Error::Denied(Denied::NoService(_))) if start.elapsed() < PATIENCE => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    opened => break opened.unwrap(),
                }
            };
            assert_eq!(opened.1.bytes, b"welcome");
            (opened.0, far.join().unwrap())
        });
        assert!(near.peer().is_far() && far.peer().is_far(), "{} {}", near.peer(), far.peer());
        assert!(near.peer().name.contains("host2") && far.peer().name.contains("host0"));
        assert_eq!(near.queues(), far.queues());

        let arena = client.arena();
        arena.share_with(&near, Access::Read).unwrap();
        let buffer = arena.alloc(3 * SECTION).expect("there is room");
        let contents: Vec<u8> = (0..3 * SECTION).map(|byte| (byte / 1000 + byte) as u8).collect();
        let start = Instant::now();
        // The grant is on its way between the managers.
        let found = loop {
            if let Some(found) = far.resolve(buffer.offset(), 3 * SECTION, Access::Read) {
                break found.as_ptr();
            }
            assert!(start.elapsed() < PATIENCE);
        };
        // SAFETY: ours, and long enough; and granted to the server, which reads published bytes.
        unsafe {
            client.memory().write(buffer.as_ptr(), &contents);
            server.memory().refresh(found, contents.len());
            assert!(std::slice::from_raw_parts(found, contents.len()) == contents, "{mode}");
        }
        let more = server.lease(2).unwrap();
        let apart =
            more.extent().offset >= buffer.offset() + 3 * SECTION || more.extent().end() <= buffer.offset();
        assert!(apart, "a section has one owner");
        drop((more, far));
        let start = Instant::now();
        while near.gone().is_none() {
            assert!(start.elapsed() < PATIENCE);
        }
        assert_eq!(near.gone(), Some(Cause::Closed));
        arena.free(buffer);
        drop((near, arena));
        until(&client, "all is back", |listing| listing.free_bytes == all && listing.channels.is_empty());
        drop((client, server, service));
        there.stop();
        let client = Client::connect_as(here.socket(), "client").unwrap();
        let left = until(&client, "it left", |listing| {
            listing.hosts.iter().any(|host| host.host == 2 && host.standing == HostStanding::Left)
        });
        assert!(left.hosts.iter().all(|host| host.claimed_bytes == 0));
    }
}

#[test]
fn a_host_whose_heartbeat_moves_is_fenced_by_force_only() {
    let rack = Rack::new(MemoryKind::Coherent, 1, 64 << 20, 2);
    let managers = [0, 1].map(|host| rack.manager(host));
    let [here, there] =
        [0, 1].map(|host: usize| Client::connect_as(managers[host].socket(), "client").unwrap());
    linked(&here);
    let refused = here.declare_ended(1, false).unwrap_err();
    assert!(matches!(refused, Error::Denied(Denied::HostRuns(1))), "{refused}");
    assert!(refused.to_string().contains("--force"), "{refused}");
    // Nothing has happened to it.
    std::thread::sleep(Duration::from_millis(150));
    assert!(there.lease(1).is_ok());
    let [_here, there_manager] = managers;
    // A host that shows nothing any more is declared ended without.
    drop((there, there_manager));
    let start = Instant::now();
    while let Err(error) = here.declare_ended(1, false) {
        assert!(matches!(error, Error::Denied(Denied::HostRuns(1))), "{error}");
        assert!(start.elapsed() < PATIENCE, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn devices_that_cannot_be_formatted_are_refused_with_what_to_do() {
    let rack = Rack::new(MemoryKind::Coherent, 2, 64 << 20, 2);
    let refused = |paths: &[&PathBuf]| {
        let paths = paths.iter().map(|path| (*path).clone()).collect();
        format(&Format { paths, ..rack.format(2) }).map(drop).unwrap_err().to_string()
    };
    let [first, second] = [&rack.paths[0], &rack.paths[1]];
    let link = rack.folder.path("link");
    std::os::unix::fs::symlink(first, &link).unwrap();
    for twice in [first, &link] {
        let said = refused(&[first, twice]);
        assert!(said.contains("give each device once"), "{said}");
    }
    // A device of a set, alone or in another order.
    assert!(refused(&[second]).contains("give all devices of that set"), "{}", refused(&[second]));
    assert!(refused(&[second, first]).contains("--force"), "{}", refused(&[second, first]));
    // One that a host serves, in a set with another.
    let (alone, other) = (rack.folder.path("alone"), rack.folder.path("other"));
    for path in [&alone, &other] {
        std::fs::File::create(path).unwrap().set_len(64 << 20).unwrap();
    }
    format(&Format { paths: vec![alone.clone()], ..rack.format(2) }).unwrap();
    let serving = Rack { folder: Folder::in_memory(), mode: rack.mode, paths: vec![alone.clone()] };
    let _manager = serving.manager(0);
    assert!(refused(&[&alone, &other]).contains("serves them"), "{}", refused(&[&alone, &other]));
    // Smaller than a section.
    let small = rack.folder.path("small");
    std::fs::File::create(&small).unwrap().set_len(1 << 20).unwrap();
    assert!(refused(&[&small]).contains("less than a section of 2 MiB"), "{}", refused(&[&small]));
}

/// Role of this program if a test started it: a manager of host 0 of a device.
#[test]
fn role() {
    let Ok(device) = std::env::var("UNRACK_POOL_DEVICE") else { return };
    let socket = PathBuf::from(&device).with_file_name("pool.sock");
    let options = Options::for_host(socket, vec![device.into()], HostOptions::new(0)).unwrap();
    let _ = unrack_pool::manager::signals::serve(&options, || println!("\nserves"));
}

#[test]
fn a_manager_whose_file_becomes_shorter_says_why_it_ends() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let rack = Rack::new(MemoryKind::Coherent, 1, 64 << 20, 2);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hosts::role", "--nocapture"]).env("UNRACK_POOL_DEVICE", &rack.paths[0]);
    let mut manager = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(manager.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "serves"));
    std::fs::OpenOptions::new().write(true).open(&rack.paths[0]).unwrap().set_len(0).unwrap();
    let ended = manager.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("SIGBUS") && said.contains("was made shorter"), "{said}");
}
