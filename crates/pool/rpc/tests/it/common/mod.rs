//! A pool in a folder of its own, and a service that does a little of everything.

pub(crate) mod books;
#[path = "../../../../pool/tests/it/common/doorbells.rs"]
mod doorbells;

use doorbells::Doorbells;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::manager::HostOptions;
use unrack_pool::wire::{Denied, ListingEntry};
use unrack_pool::{Manager, SECTION, manager};
use unrack_rpc::server::{Call, CallRefusal};
use unrack_rpc::{Client, Error, Server, client, server};
use unrack_testing::{TestFolder, TestRequirement, skip};
use unrack_units::Bytes;

/// Kind of memory, and whether client and server are on two hosts that share a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    mode: MemoryKind,
    hosts: u32,
}

impl Setting {
    /// Returns whether client and server are on two hosts.
    pub(crate) fn is_between_hosts(self) -> bool {
        self.hosts > 1
    }
}

impl From<MemoryKind> for Setting {
    fn from(mode: MemoryKind) -> Setting {
        Setting { mode, hosts: 1 }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}, {} host(s)", self.mode, self.hosts)
    }
}

/// Returns whether hosts that share memory of a kind have doorbells here.
fn rings(mode: MemoryKind) -> bool {
    mode != MemoryKind::Coherent
}

/// Returns all kinds of memory that this machine has, on one host and between two.
pub(crate) fn modes() -> Vec<Setting> {
    let flushes = unrack_pool::cache_control::Incoherent::detect();
    if let Err(why) = &flushes {
        skip(TestRequirement::Flush, why);
    }
    let incoherent = flushes.is_ok().then_some(MemoryKind::Incoherent);
    let modes = [MemoryKind::Coherent, MemoryKind::Model].into_iter().chain(incoherent);
    modes.flat_map(|mode| [1, 2].map(|hosts| Setting { mode, hosts })).collect()
}

/// Returns all kinds of memory that this machine has, on one host, where segments come with descriptors.
pub(crate) fn host_modes() -> Vec<Setting> {
    modes().into_iter().filter(|setting| setting.hosts == 1).collect()
}

pub(crate) struct Pool {
    /// The servers' manager, and that of the clients if they are on another host.
    _managers: Vec<Manager>,
    folder: TestFolder,
    hosts: u32,
}

impl Pool {
    pub(crate) fn new(setting: impl Into<Setting>) -> Pool {
        Pool::with(setting, "64MiB", |_| {})
    }

    pub(crate) fn with(
        setting: impl Into<Setting>,
        capacity: &str,
        change: impl Fn(&mut manager::Options),
    ) -> Pool {
        let Setting { mode, hosts } = setting.into();
        let (folder, capacity) = (TestFolder::in_memory("rpc"), capacity.parse().expect("a size"));
        let device = folder.join("device");
        if hosts > 1 {
            make_device(&device, capacity, mode, hosts);
        }
        let doorbells = Doorbells::new(hosts);
        let start = |host: u32| {
            let socket = folder.join(format!("pool{host}"));
            let mut options = match hosts {
                1 => manager::Options::new(socket, capacity),
                _ => {
                    let doorbell = rings(mode).then(|| doorbells.of(host));
                    let place = HostOptions { doorbell, ..HostOptions::new(host) };
                    manager::Options::for_host(socket, vec![device.clone()], place).expect("it was formatted")
                }
            };
            options.mode = mode;
            // The processes of a test are threads of one process.
            options.per_client = Some("100%".parse().expect("a share"));
            change(&mut options);
            Manager::start(&options).expect("a manager starts")
        };
        Pool { _managers: (0..hosts).map(start).collect(), folder, hosts }
    }

    /// Returns the socket at which servers connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("pool0")
    }

    /// Returns the socket at which clients connect: that of the last host.
    pub(crate) fn client_socket(&self) -> PathBuf {
        self.folder.join(format!("pool{}", self.hosts - 1))
    }

    /// Connects to the clients' manager without the library's calls, once it knows of the service `test`.
    pub(crate) fn raw(&self) -> unrack_pool::Client {
        let raw = unrack_pool::Client::connect(self.client_socket()).expect("the manager is there");
        let start = Instant::now();
        let is_known = |one: &ListingEntry| match one {
            ListingEntry::Service { name, .. } | ListingEntry::FarService { name, .. } => name == "test",
            _ => false,
        };
        while !raw.list().expect("the manager is there").iter().any(is_known) {
            assert!(start.elapsed() < PATIENCE, "nothing serves `test`");
            std::thread::sleep(Duration::from_millis(1));
        }
        raw
    }

    pub(crate) fn client(&self, options: client::Options) -> Client {
        self.connect("test", options).expect("the service takes clients")
    }

    /// Connects to a service, of which the other host may not have heard yet.
    pub(crate) fn connect(&self, service: &str, options: client::Options) -> Result<Client, Error> {
        let start = Instant::now();
        loop {
            match Client::connect(self.client_socket(), service, options.clone()) {
                Err(Error::Pool(unrack_pool::Error::Denied(Denied::NoService(_))))
                    if self.hosts > 1 && service == "test" && start.elapsed() < PATIENCE =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                connected => return connected,
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a file that is a device of this capacity, besides the records of hosts.
fn make_device(path: &Path, capacity: Bytes, mode: MemoryKind, hosts: u32) {
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(capacity.get() + SECTION).expect("there is room");
    let paths = vec![path.to_path_buf()];
    let queue_bytes = Bytes::new(64 << 10);
    manager::format(&manager::Format { paths, granularity: 4096, hosts, queue_bytes, mode, force: true })
        .expect("it is formatted");
}

/// Serves `echo`, `sum` (of words), `fill` (as many bytes as asked for), `refuse`, `panic`, `slow`, `count` (a
/// stream).
pub(crate) fn serve(socket: &Path, options: server::Options) -> unrack_rpc::server::RunningService {
    service(options).serve(socket).expect("the pool is there")
}

fn word(call: &Call<'_>, at: usize) -> Result<u64, CallRefusal> {
    call.request().get(at * 8).map_err(|_| CallRefusal::from_number(0))
}

pub(crate) fn service(options: server::Options) -> Server {
    Server::new("test", options)
        .method("echo", |call| {
            let length = call.request().len();
            call.answer(length)?;
            Ok(())
        })
        .method("sum", |call| {
            let words = call.request().len() / 8;
            let mut sum = 0u64;
            for at in 0..words {
                sum = sum.wrapping_add(word(call, at)?);
            }
            call.answer(8)?.put(0, sum).expect("eight bytes");
            Ok(())
        })
        .method("fill", |call| {
            let bytes = word(call, 0)? as usize;
            call.answer(bytes)?.copy_from(&vec![0x5a; bytes]);
            Ok(())
        })
        .method("refuse", |_| Err(CallRefusal::from_number(7)))
        .method("panic", |_| std::panic::resume_unwind(Box::new("as the client asked")))
        .method("slow", |call| {
            std::thread::sleep(Duration::from_millis(word(call, 0)?));
            Ok(())
        })
        .stream("count", |call| {
            let mut left = word(call, 0)?;
            let mut next = 0u64;
            Ok(Box::new(move |call: &mut Call<'_>| {
                if left == 0 {
                    return Ok(false);
                }
                call.answer(8)?.put(0, next).expect("eight bytes");
                (next, left) = (next + 1, left - 1);
                Ok(left > 0)
            }))
        })
}
