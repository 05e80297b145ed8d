//! The store under concurrent clients, killed clients and hostile ones.

mod history;

use history::{Done, Event, History};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_kv::store::StoreCounts;
use unrack_kv::{Client, Error, StoreService};
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::{Manager, manager};
use unrack_rpc::{client, server};
use unrack_testing::{TestFolder, TestRequirement, skip};

const PATIENCE: Duration = Duration::from_secs(60);

struct Pool {
    _manager: Manager,
    folder: TestFolder,
}

impl Pool {
    fn new(mode: MemoryKind) -> Pool {
        let folder = TestFolder::new("kv");
        let mut options = manager::Options::new(folder.join("pool"), "64MiB".parse().expect("a size"));
        options.mode = mode;
        // The clients of a test are threads of one process, so one share has to suffice.
        options.per_client = Some("100%".parse().expect("a share"));
        Pool { _manager: Manager::start(&options).expect("a manager starts"), folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("pool")
    }

    fn service(&self) -> StoreService {
        StoreService::start(self.socket(), "kv", server::Options::default()).expect("it serves")
    }

    fn client(&self) -> Client {
        Client::connect(self.socket(), "kv", client::Options::default()).expect("it takes clients")
    }
}

/// Returns the modes of memory that this machine supports.
fn modes() -> Vec<MemoryKind> {
    let flushes = unrack_pool::cache_control::Incoherent::detect();
    if let Err(why) = &flushes {
        skip(TestRequirement::Flush, why);
    }
    let incoherent = flushes.is_ok().then_some(MemoryKind::Incoherent);
    [MemoryKind::Coherent, MemoryKind::Model].into_iter().chain(incoherent).collect()
}

fn until(service: &StoreService, counts: StoreCounts) {
    let start = Instant::now();
    while service.counts() != counts {
        assert!(start.elapsed() < PATIENCE, "{:?}, not {counts:?}", service.counts());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let service = pool.service();
        let client = pool.client();
        assert!(client.get(b"a").unwrap().is_none());
        let first = client.put(b"a", b"one").unwrap();
        client.put(b"", b"").unwrap();
        assert!(client.get(b"").unwrap().unwrap().body().is_empty());
        let second = client.put(b"a", b"another").unwrap();
        assert!(second > first);
        let value = client.get(b"a").unwrap().unwrap();
        assert_eq!((value.body().to_vec().as_slice(), value.version()), (&b"another"[..], second));
        assert_eq!(client.put_if(b"a", first, b"no").unwrap(), None);
        let third = client.put_if(b"a", second, b"yes").unwrap().unwrap();
        assert_eq!(client.put_if(b"new", 0, b"there").unwrap(), Some(third + 1));
        assert_eq!(client.delete(b"a").unwrap(), Some(third));
        assert_eq!(client.delete(b"a").unwrap(), None);
        assert_eq!(value.body().to_vec(), b"another", "it is read, and stays");
        drop(value);
        assert!(matches!(client.put(&[7; 300], b""), Err(Error::KeyTooLong(300))));
        drop(client);
        until(&service, StoreCounts { keys: 2, values: 2, held: 0 });
    }
}

#[test]
fn far_clients_get_copies_of_what_near_ones_put() {
    let pool = Pool::new(MemoryKind::Coherent);
    let listen = Some("tcp://127.0.0.1:0".to_string());
    let options = server::Options { listen, ..server::Options::default() };
    let service = StoreService::start(pool.socket(), "kv", options).unwrap();
    let near = pool.client();
    let address = format!("tcp://{}", service.address().unwrap());
    let far = Client::connect(address, "kv", client::Options::default()).unwrap();
    for length in [0, 1, 4096, 4097, 300_000] {
        let version = near.put(b"key", &vec![7; length]).unwrap();
        let copy = far.get(b"key").unwrap().unwrap();
        near.put(b"key", b"other").unwrap();
        assert_eq!((copy.version(), copy.body().to_vec()), (version, vec![7; length]));
    }
    for client in [&near, &far, &near, &far] {
        let add = |value: Option<unrack_rpc::view::View<'_>>| {
            let count = value.map_or(0, |value| value.get::<u64>(0).unwrap());
            (count + 1).to_le_bytes().to_vec()
        };
        client.update(b"count", add).unwrap();
    }
    assert_eq!(near.get(b"count").unwrap().unwrap().body().get::<u64>(0).unwrap(), 4);
    assert!(far.delete(b"count").unwrap().is_some() && far.get(b"count").unwrap().is_none());
    drop(near);
    until(&service, StoreCounts { keys: 1, values: 1, held: 0 });
}

#[test]
fn a_full_pool_keeps_what_was_there() {
    let pool = Pool::new(MemoryKind::Coherent);
    let _service = pool.service();
    let client = pool.client();
    client.put(b"key", b"kept").unwrap();
    let big = vec![1; 20 << 20];
    let mut refused = None;
    for key in 0..10u8 {
        refused = client.put(&[key], &big).err();
        if refused.is_some() {
            break;
        }
    }
    let said = refused.expect("it is full at some time").to_string();
    assert!(said.contains("memory") || said.contains("full"), "{said}");
    assert_eq!(client.get(b"key").unwrap().unwrap().body().to_vec(), b"kept");
}

/// Readers keep values while other clients write, delete and reuse the memory.
#[test]
fn a_value_does_not_change_while_it_is_read() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let service = pool.service();
        let stop = AtomicBool::new(false);
        let read = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let client = pool.client();
                    let mut kept = std::collections::VecDeque::new();
                    while !stop.load(Ordering::Relaxed) {
                        if let Some(value) = client.get(b"key").unwrap() {
                            kept.push_back(value);
                        }
                        if kept.len() > 8 {
                            let value = kept.pop_front().unwrap();
                            let bytes = value.body().to_vec();
                            assert!(bytes.iter().all(|&byte| byte == bytes[0]), "{mode}: it changed");
                            assert_eq!(bytes.len() % 512, usize::from(bytes[0]));
                            read.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let client = pool.client();
            let start = Instant::now();
            let mut written = 0u64;
            while start.elapsed() < Duration::from_millis(300) || read.load(Ordering::Relaxed) < 20 {
                assert!(start.elapsed() < PATIENCE);
                written += 1;
                let byte = (written % 251 + 1) as u8;
                // Some values are large, so that they are released at once.
                let large = if written.is_multiple_of(16) { 64 << 10 } else { 0 };
                client.put(b"key", &vec![byte; large + 512 + usize::from(byte)]).unwrap();
                if written.is_multiple_of(5) {
                    client.delete(b"key").unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
            client.put(b"key", b"last").unwrap();
        });
        until(&service, StoreCounts { keys: 1, values: 1, held: 0 });
    }
}

/// Three clients operate at random on one key, and some order explains all results.
#[test]
fn a_key_is_linearizable() {
    let pool = Pool::new(MemoryKind::Coherent);
    let _service = pool.service();
    let clients: Vec<Client> = (0..3).map(|_| pool.client()).collect();
    let fresh = AtomicU64::new(1);
    for round in 0..300u64 {
        let key = round.to_le_bytes();
        let history = History::default();
        std::thread::scope(|scope| {
            for (number, client) in clients.iter().enumerate() {
                let (history, fresh) = (&history, &fresh);
                scope.spawn(move || {
                    for step in 0..4u64 {
                        let kind = (round.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                            >> (number as u64 * 12 + step * 3))
                            % 6;
                        history.record(|| one(client, &key, kind, fresh.fetch_add(1, Ordering::Relaxed)));
                    }
                });
            }
        });
        let events = history.events();
        assert!(history::is_linearizable(&events), "round {round}: {events:?}");
    }
}

fn one(client: &Client, key: &[u8], kind: u64, fresh: u64) -> Done {
    let word = |view: unrack_rpc::view::View<'_>| view.get::<u64>(0).unwrap();
    match kind {
        0 | 1 => {
            client.put(key, &fresh.to_le_bytes()).unwrap();
            Done::Put(fresh)
        }
        2 => Done::Delete(client.delete(key).unwrap().is_some()),
        3 => {
            let mut seen = None;
            client
                .update(key, |value| {
                    seen = value.map(word);
                    fresh.to_le_bytes().to_vec()
                })
                .unwrap();
            Done::Swap(seen, fresh)
        }
        _ => Done::Get(client.get(key).unwrap().map(|value| word(value.body()))),
    }
}

/// The check accepts a linearizable history and rejects a stale read.
#[test]
fn the_check_finds_a_stale_read() {
    let at = |begun, ended, done| Event { begun, ended, done };
    let stale = [at(0, 1, Done::Put(1)), at(2, 3, Done::Put(2)), at(4, 5, Done::Get(Some(1)))];
    assert!(!history::is_linearizable(&stale));
    let beside = [at(0, 1, Done::Put(1)), at(2, 6, Done::Put(2)), at(4, 5, Done::Get(Some(1)))];
    assert!(history::is_linearizable(&beside));
    let lost = [at(0, 1, Done::Put(1)), at(2, 5, Done::Swap(Some(1), 2)), at(3, 4, Done::Swap(Some(1), 3))];
    assert!(!history::is_linearizable(&lost));
}

#[test]
fn updates_are_not_lost() {
    let pool = Pool::new(MemoryKind::Coherent);
    let _service = pool.service();
    const EACH: u64 = 300;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let client = pool.client();
                for _ in 0..EACH {
                    let add = |value: Option<unrack_rpc::view::View<'_>>| {
                        let count = value.map_or(0, |value| value.get::<u64>(0).unwrap());
                        (count + 1).to_le_bytes().to_vec()
                    };
                    client.update(b"count", add).unwrap();
                }
            });
        }
    });
    assert_eq!(pool.client().get(b"count").unwrap().unwrap().body().get::<u64>(0).unwrap(), 3 * EACH);
}

/// Role of this program if the test below started it: reads values, prints a line, and keeps holding them.
#[test]
fn reader() {
    let Some(socket) = std::env::var_os("UNRACK_KV_READER") else { return };
    let client = Client::connect(socket, "kv", client::Options::default()).unwrap();
    let values: Vec<_> = (0..20u8).map(|key| client.get(&[key % 10]).unwrap().unwrap()).collect();
    std::io::stdout().write_all(b"\nreading\n").unwrap();
    while values.len() == 20 {
        // The process is killed amid further gets.
        drop(client.get(&[3]).unwrap());
    }
}

#[test]
fn a_client_killed_while_it_reads_leaks_nothing() {
    let pool = Pool::new(MemoryKind::Coherent);
    let service = pool.service();
    let client = pool.client();
    for round in 0..5u8 {
        for key in 0..10 {
            client.put(&[key], &[round; 1000]).unwrap();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["reader", "--exact", "--nocapture", "--test-threads=1"]);
        let mut child =
            command.env("UNRACK_KV_READER", pool.socket()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "reading"));
        assert!(service.counts().held >= 20);
        // No key has half of the held values any more.
        for key in 0..5 {
            client.delete(&[key]).unwrap();
        }
        assert_eq!(service.counts().keys, 5);
        assert!(service.counts().values >= 10, "{:?}", service.counts());
        child.kill().unwrap();
        child.wait().unwrap();
        until(&service, StoreCounts { keys: 5, values: 5, held: 0 });
    }
}

/// Nonsense from one client is refused: others are still served, and its values are released.
#[test]
fn nonsense_is_refused() {
    let pool = Pool::new(MemoryKind::Coherent);
    let service = pool.service();
    let hostile = unrack_rpc::Client::connect(pool.socket(), "kv", client::Options::default()).unwrap();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for method in ["kv.get", "kv.put", "kv.put_if", "kv.delete", "kv.let_go"] {
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..random() % 80).map(|_| (random() % 5) as u8).collect();
            let mut request = hostile.request_with_room(bytes.len(), random() % 64).unwrap();
            request.body().copy_from(&bytes);
            drop(request.call(method));
        }
    }
    let client = pool.client();
    client.put(b"key", b"value").unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().body().to_vec(), b"value");
    drop((hostile, client));
    let start = Instant::now();
    while service.counts().held > 0 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(service.counts().keys, service.counts().values);
}
