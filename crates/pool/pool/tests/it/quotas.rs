//! Quotas: one client cannot take all of a pool, neither its memory nor its manager's room for connections and
//! records.

use crate::common::{PATIENCE, folder::Folder};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use unrack_pool::listing::Listing;
use unrack_pool::wire::{Access, Denied, Limited, QuotaHolder};
use unrack_pool::{Client, Error, Manager, Options, SECTION, Segment};
use unrack_testing::{TestRequirement, skip};
use unrack_units::{Bytes, Share};

const CAPACITY: u64 = 16 * SECTION;
const QUEUES: u64 = 64 << 10;
/// The user "nobody", who owns no files.
const NOBODY: u32 = 65534;

struct Pool {
    manager: Manager,
    folder: Folder,
}

fn pool(change: impl FnOnce(&mut Options)) -> Pool {
    let folder = Folder::new();
    let mut options = Options::new(folder.path("pool.sock"), Bytes::new(CAPACITY));
    change(&mut options);
    Pool { manager: Manager::start(&options).expect("a manager starts"), folder }
}

impl Pool {
    fn client(&self, name: &str) -> Client {
        Client::connect_as(self.manager.socket(), name).expect("the manager is there")
    }
}

/// Leases one section after the other until one is denied.
fn lease_all(client: &Client) -> (Vec<Segment>, Denied) {
    let mut held = Vec::new();
    loop {
        match client.lease(1) {
            Ok(segment) => held.push(segment),
            Err(Error::Denied(denied)) => return (held, denied),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Role of this program if a test started it: a process that leases all it gets, reports how much, and keeps it.
#[test]
fn role() {
    let Ok(socket) = std::env::var("UNRACK_POOL_TAKES") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let clients: Vec<Client> = (0..3).map(|_| Client::connect_as(&socket, "taker").unwrap()).collect();
    let held: Vec<_> = clients.iter().map(|client| lease_all(client).0).collect();
    println!("\ntook {}", held.iter().map(Vec::len).sum::<usize>());
    loop {
        std::thread::park();
    }
}

/// Process with three connections that leases what it can.
struct Taker(Child);

impl Taker {
    /// Starts the process; returns it and the number of sections that it got.
    fn start(socket: &Path, user: Option<u32>) -> (Taker, usize) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "quotas::role", "--nocapture", "--test-threads=1"]);
        command.env("UNRACK_POOL_TAKES", socket).stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().expect("this program can be started");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let took = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("took ")?.parse().ok());
        (Taker(child), took.expect("it says how much it took"))
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_has_half_whatever_connections_it_has_and_others_have_the_rest() {
    let pool = pool(|_| {});
    let (one, two) = (pool.client("one"), pool.client("two"));
    let (held, denied) = lease_all(&one);
    assert_eq!(held.len() as u64, CAPACITY / SECTION / 2);
    let quota = Denied::Quota {
        whose: QuotaHolder::Process,
        asked_bytes: SECTION,
        held_bytes: CAPACITY / 2,
        quota_bytes: CAPACITY / 2,
    };
    assert_eq!(denied, quota);
    assert!(
        denied.to_string().contains("this process may have 16MiB")
            && denied.to_string().contains("--per-client")
    );
    assert_eq!(lease_all(&two).1, quota, "a second connection is the same process's");
    assert!(matches!(two.lease(u32::MAX), Err(Error::Denied(Denied::Quota { .. }))));

    let (_taker, took) = Taker::start(pool.manager.socket(), None);
    assert_eq!(
        took as u64,
        CAPACITY / SECTION / 2,
        "three connections of another process have the other half"
    );
    drop(held);
    assert_eq!(lease_all(&two).0.len() as u64, CAPACITY / SECTION / 2, "what was given back can be had");
}

#[test]
fn the_quota_is_as_large_as_was_said_and_listed() {
    for (share, sections) in [
        (Share::Size(Bytes::new(3 * SECTION)), 3),
        ("25%".parse().unwrap(), 4),
        (crate::common::ALL, CAPACITY / SECTION),
    ] {
        let pool = pool(|options| options.per_client = Some(share));
        let client = pool.client("one");
        let (held, denied) = lease_all(&client);
        assert_eq!(held.len() as u64, sections);
        assert_eq!(matches!(denied, Denied::Full { .. }), sections * SECTION == CAPACITY, "{denied}");
        let listing = Listing::read(&pool.client("observer")).unwrap();
        assert_eq!(listing.per_client_bytes, sections * SECTION);
        assert_eq!(listing.processes[0].quota_used_bytes, sections * SECTION);
        assert!(listing.to_string().contains("100%"), "{listing}");
    }
    let folder = Folder::new();
    let mut options = Options::new(folder.path("pool.sock"), Bytes::new(CAPACITY));
    options.per_client = Some("1%".parse().unwrap());
    let refused = Manager::start(&options).map(drop).expect_err("nobody could lease anything").to_string();
    assert!(refused.contains("--per-client 1%") && refused.contains("4MiB"), "{refused}");
}

/// The smallest pools are still usable by one process.
#[test]
fn in_a_tiny_pool_a_process_has_a_section_and_queues() {
    for sections in 1..=4 {
        let pool = pool(|options| options.capacity = Bytes::new(sections * SECTION));
        let held = lease_all(&pool.client("one")).0;
        assert_eq!(held.len() as u64, sections.min(2));
    }
}

/// Otherwise such a user would have as many quotas as it starts processes.
#[test]
fn all_processes_of_another_user_have_one_quota() {
    if !rustix::process::geteuid().is_root() {
        return skip(TestRequirement::Root, "needs root, to start processes of another user");
    }
    let pool = pool(|options| options.permissions = 0o666);
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(pool.folder.path(""), open).unwrap();
    let (_first, took) = Taker::start(pool.manager.socket(), Some(NOBODY));
    assert_eq!(took as u64, CAPACITY / SECTION / 2);
    let (_second, took) = Taker::start(pool.manager.socket(), Some(NOBODY));
    assert_eq!(took, 0, "a second process of that user");
    let (_third, took) = Taker::start(pool.manager.socket(), Some(NOBODY - 1));
    assert_eq!(took as u64, CAPACITY / SECTION / 2, "a third user");
}

/// Released segments that others still have mapped count, and so do queue areas.
#[test]
fn all_that_is_not_free_counts() {
    let pool = pool(|_| {});
    let (server, client) = (pool.client("server"), pool.client("client"));
    let service = server.register("kv").unwrap();
    let (near, far) = std::thread::scope(|scope| {
        let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
        (client.open("kv", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
    });
    let used = || Listing::read(&pool.client("observer")).unwrap().processes[0].quota_used_bytes;
    assert_eq!(used(), QUEUES);
    let segment = client.lease(3).unwrap();
    near.grant(&segment, Access::Write).unwrap();
    drop(segment);
    assert_eq!(used(), QUEUES + 3 * SECTION, "it is mapped at the other side");
    let held = lease_all(&client).0;
    assert_eq!(
        held.len() as u64,
        CAPACITY / SECTION / 2 - 3 - 1,
        "a part of a section is taken by the queues"
    );
    drop((near, far));
    assert_eq!(used(), held.len() as u64 * SECTION);
}

/// One client has no more than its share of connections, channels and records, either.
#[test]
fn one_client_leaves_connections_channels_and_names_to_others() {
    let pool = pool(|options| {
        options.limits.clients = 8;
        options.limits.channels = 4;
        options.limits.services = 2;
    });
    let limit = |error: Option<Error>| match error {
        Some(Error::Denied(Denied::Limit { what, most })) => Some((what, most)),
        other => panic!("{other:?}"),
    };
    let mut clients: Vec<Client> = (0..4).map(|_| pool.client("one")).collect();
    let fifth = Client::connect_as(pool.manager.socket(), "fifth").err();
    assert_eq!(limit(fifth), Some((Limited::Connections, 4)));
    let _services = [clients[0].register("a").unwrap(), clients[1].register("b").unwrap()];
    assert_eq!(
        limit(clients[2].register("c").err()),
        Some((Limited::Services, 2)),
        "connections count together"
    );
    let short = std::time::Duration::from_millis(5);
    for client in &clients[1..3] {
        assert!(matches!(client.open("a", b"", 0, &[], short), Err(Error::TimedOut(_))));
    }
    let third = clients[3].open("a", b"", 0, &[], short).map(drop).err();
    assert_eq!(limit(third), Some((Limited::Channels, 2)), "half of the service's");
    clients.pop();
    assert!(Client::connect_as(pool.manager.socket(), "late").is_ok());
}
