//! Attacks on other clients through a segment that the kernel prevents, and memory that only one user may share.

use crate::common::{PATIENCE, Pool, folder::Folder, raw::Raw};
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags, SealFlags};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use unrack_pool::manager::{Backing, Error as ManagerError};
use unrack_pool::wire::{Access, Denied, Reply, Request};
use unrack_pool::{Channel, Client, Error, Manager, Options};
use unrack_testing::{TestRequirement, skip};
use unrack_units::Bytes;

const NOBODY: u32 = 65534;

fn pair(server: &Client, client: &Client) -> (Channel, Channel) {
    let service = server.register("honest").unwrap();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
        (client.open("honest", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
    })
}

/// A peer that is granted a segment for writing cannot seal it and so keep others from being granted it.
#[test]
fn a_client_that_seals_what_it_was_granted_keeps_nobody_from_it() {
    let pool = Pool::new(|_| {});
    let mut hostile = Raw::new(pool.manager.socket());
    hostile.ask(Request::Register { service: "hostile".into() }).0.unwrap();
    let (server, owner) = (pool.client("server"), pool.client("owner"));
    let near = std::thread::scope(|scope| {
        let opened = scope.spawn(|| owner.open("hostile", b"", 0, &[], PATIENCE).unwrap().0);
        hostile.accept();
        opened.join().unwrap()
    });
    let segment = owner.lease(1).unwrap();
    near.grant(&segment, Access::Write).unwrap();
    let file = hostile.granted();
    for seal in [SealFlags::FUTURE_WRITE, SealFlags::WRITE, SealFlags::SEAL, SealFlags::all()] {
        assert!(rustix::fs::fcntl_add_seals(&file, seal).is_err(), "{seal:?}");
    }
    let (honest, far) = pair(&server, &owner);
    honest.grant(&segment, Access::Write).unwrap();
    let at = segment.extent().offset;
    let start = Instant::now();
    while far.resolve(at, 64, Access::Write).is_none() {
        assert!(start.elapsed() < PATIENCE && far.gone().is_none(), "{:?}", far.gone());
    }
    // Each access excludes the other: no seal serves both.
    let other = owner.lease(1).unwrap();
    near.grant(&other, Access::Read).unwrap();
    assert!(matches!(honest.grant(&other, Access::Write), Err(Error::Denied(Denied::Sealed))));
    let again = pool.client("again");
    let (second, _far) = {
        let service = again.register("second").unwrap();
        std::thread::scope(|scope| {
            let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
            (owner.open("second", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
        })
    };
    assert!(matches!(second.grant(&segment, Access::Read), Err(Error::Denied(Denied::Sealed))));
}

/// The manager opens a segment for its readers. A process that holds a lease of it must not make it wait for 45 s.
#[test]
fn a_lease_of_a_file_does_not_hold_up_the_manager() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let pool = Pool::new(|_| {});
    let (server, observer) = (pool.client("server"), pool.client("observer"));
    let service = server.register("kv").unwrap();
    let mut hostile = Raw::new(pool.manager.socket());
    let (reply, mut beside) = hostile.ask(Request::Lease { sections: 1 });
    let Ok(Reply::Leased(segment)) = reply else { panic!("{reply:?}") };
    let leased = beside.remove(0);
    let path = format!("/proc/self/fd/{}", leased.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    // SAFETY: a call with numbers only.
    let has_lease = unsafe { libc::fcntl(again.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0;
    let (channel, _far) = std::thread::scope(|scope| {
        let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
        let open = Request::Open { service: "kv".into(), greeting: Vec::new(), wakeup: 0 };
        let Ok(Reply::Opened(opened)) = hostile.ask(open).0 else { panic!("no channel") };
        (opened.channel, far.join().unwrap())
    });
    let start = Instant::now();
    let granted = hostile.ask(Request::Grant { channel, offset: segment.offset, access: Access::Read }).0;
    assert!(!has_lease || matches!(granted, Err(Denied::Memory(_))), "{granted:?}");
    assert!(observer.list().is_ok());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Role of this program if a test started it: another user's process that connects.
#[test]
fn role() {
    let Ok(socket) = std::env::var("UNRACK_POOL_CONNECTS") else { return };
    let connected = Client::connect_as(socket, "stranger");
    println!("\n{}", connected.map_or_else(|error| error.to_string(), |_| "let in".into()));
}

/// Memory in named files and in huge pages is for one user: others are refused at start and when they connect.
#[test]
fn memory_that_ends_who_touches_it_is_for_one_user() {
    let (folder, segments) = (Folder::new(), Folder::in_memory());
    let file = folder.path("file");
    std::fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let devices = Backing::Devices { paths: vec![file], granularity: 4096 };
    let mut options = Options::new(folder.path("pool.sock"), Bytes::new(16 << 20));
    for backing in [Backing::Memfd { huge: true }, Backing::Directory(segments.path("")), devices] {
        for permissions in [0o620, 0o660, 0o602, 0o666] {
            let open = Options { permissions, backing: backing.clone(), ..options.clone() };
            let refused = Manager::start(&open).map(drop).expect_err("others could connect");
            assert!(matches!(refused, ManagerError::OneUser { .. }), "{refused}");
            assert!(refused.to_string().contains("--permissions 600"), "{refused}");
        }
    }
    options.backing = Backing::Directory(segments.path(""));
    let manager = Manager::start(&options).unwrap();
    if !rustix::process::geteuid().is_root() {
        return skip(TestRequirement::Root, "needs root, to connect as another user");
    }
    // The socket is opened to all by hand.
    std::fs::set_permissions(folder.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::set_permissions(manager.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "users::role", "--nocapture"]).env("UNRACK_POOL_CONNECTS", manager.socket());
    let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("of user 0 alone") && said.contains("--backing memfd"), "{said}");
    assert!(Client::connect_as(manager.socket(), "own").is_ok());
}
