//! A client makes every system call that the descriptors it was given allow, and goes on calling: the server, the
//! manager and others notice nothing of it. If this runs as root, the client is another user's.

use crate::common::{Pool, serve};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::{Coherent, MemoryKind as MemoryMode};
use unrack_pool::manager::Backing;
use unrack_pool::wire::{
    self, Access, Ask, Extent, Hello, OpenedChannel, ReceivedPacket, Reply, Request as Asked, Tell, Welcome,
};
use unrack_pool::{SECTION, Wakeups};
use unrack_rpc::ends::QueueLayout;
use unrack_rpc::queue::entry::{ANSWER, Answer, Kind, Request};
use unrack_rpc::queue::{Receiver, Sender};
use unrack_rpc::{Client, EntryStatus, Method, client, server};
use unrack_testing::{TestRequirement, skip};

const PATIENCE: Duration = Duration::from_secs(60);
const NOBODY: u32 = 65534;
const HELLO: &[u8] = b"urrpc\0\x01\0\0\0";

/// Role of this program if a test started it.
#[test]
fn role() {
    let Ok(role) = std::env::var("UNRACK_RPC_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let (what, socket) = role.split_once(',').unwrap();
    if what == "server" {
        let _serving = serve(Path::new(socket), server::Options::default());
        println!("\nready");
        loop {
            std::thread::park();
        }
    }
    // The kernel sends this signal when another process opens a leased file.
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    Hostile::new(Path::new(socket)).try_everything();
    println!("\ntried");
}

fn start(what: &str, socket: &Path, user: Option<u32>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "descriptor_calls::role", "--nocapture", "--test-threads=1"]);
    command.env("UNRACK_RPC_ROLE", format!("{what},{}", socket.display())).stdout(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.spawn().expect("this program can be started")
}

/// Returns whether a process prints this line before it ends.
fn says(child: &mut Child, what: &str) -> bool {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).any(|line| line == what)
}

/// Connection without the library, and the files that came by it.
struct Hostile {
    socket: OwnedFd,
    number: u32,
    /// Files of its segment, granted to the server for writing; of the queues; of the server's wakeups; of its own wakeups.
    files: Vec<(&'static str, OwnedFd)>,
    segment: Extent,
    memory: *mut u8,
    requests: Sender<Coherent>,
    answers: Receiver<Coherent>,
    generation: u32,
}

impl Hostile {
    fn new(path: &Path) -> Hostile {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).expect("a manager listens");
        let wakeups = Wakeups::make().unwrap();
        let hello = wire::first(&Hello { name: "hostile".into(), again: None });
        wire::send(socket.as_fd(), &hello, &[wakeups.file()]).unwrap();
        let ReceivedPacket::Packet(bytes, _) = wire::receive(socket.as_fd()).unwrap() else {
            panic!("no welcome")
        };
        wire::read_first::<Result<Welcome, wire::Denied>>(&bytes).unwrap().expect("it is let in");
        let mut number = 0;
        let (reply, mut beside) = ask(&socket, &mut number, Asked::Lease { sections: 1 });
        let Reply::Leased(segment) = reply else { panic!("{reply:?}") };
        let leased = beside.remove(0);
        let open = Asked::Open { service: "test".into(), greeting: HELLO.to_vec(), wakeup: 0 };
        let (reply, mut beside) = ask(&socket, &mut number, open);
        let Reply::Opened(OpenedChannel { channel, queues, .. }) = reply else { panic!("{reply:?}") };
        let (queue, theirs) = (beside.remove(0), beside.remove(0));
        let grant = Asked::Grant { channel, offset: segment.offset, access: Access::Write };
        assert_eq!(ask(&socket, &mut number, grant).0, Reply::Done);
        let own = wakeups.file().try_clone_to_owned().unwrap();
        let (area, layout) =
            (map(&queue, queues.bytes), QueueLayout::fitting(queues.bytes as usize).unwrap());
        // SAFETY: mapped for good, and nothing else on this side uses the queues.
        let (requests, answers) = unsafe {
            (
                Sender::new(Coherent, area.add(layout.requests()), layout.lines()),
                Receiver::new(Coherent, area.add(layout.answers()), layout.lines()),
            )
        };
        let memory = map(&leased, segment.bytes);
        let files = vec![
            ("segment", leased),
            ("queues", queue),
            ("wakeups of the server", theirs),
            ("own wakeups", own),
        ];
        Hostile { socket, number, files, segment, memory, requests, answers, generation: 0 }
    }

    /// Makes every system call on every descriptor, and an RPC after each.
    fn try_everything(mut self) {
        self.is_answered("at first");
        for (name, file) in std::mem::take(&mut self.files) {
            for call in CALLS {
                (call.1)(file.as_fd());
                let what = format!("{} of {name}", call.0);
                self.is_answered(&what);
                assert_eq!(ask(&self.socket, &mut self.number, Asked::Sync).0, Reply::Done, "{what}");
            }
        }
    }

    /// Makes the server read and write a page that may have been given back.
    fn is_answered(&mut self, what: &str) {
        // Queues that were given back consist of zeros: in their first lap, these are lines in which nothing has
        // arrived.
        assert!((self.generation as usize) < self.requests.lines(), "more calls than a lap has lines");
        self.generation += 1;
        let request = Request {
            kind: Kind::Call,
            connection: 0,
            slot: 0,
            generation: self.generation,
            offset: self.segment.offset,
            method: Method::named("fill").0,
            length: 8,
            capacity: self.segment.bytes as u32,
        };
        // SAFETY: mapped, and this client may write it.
        unsafe { self.memory.cast::<u64>().write_volatile(self.segment.bytes - 64) };
        self.requests.send(request.entries());
        let start = Instant::now();
        loop {
            if let Some(entries) = self.answers.receive::<ANSWER>() {
                let answer = Answer::from_entries(entries);
                assert_eq!(
                    (answer.status, answer.generation),
                    (EntryStatus::DONE, self.generation),
                    "{what}"
                );
                return;
            }
            // Nobody rings, so the server looks by itself, within a second.
            assert!(start.elapsed() < PATIENCE, "{what}: no answer");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn ask(socket: &OwnedFd, number: &mut u32, request: Asked) -> (Reply, Vec<OwnedFd>) {
    *number += 1;
    let asked = *number;
    wire::send(socket.as_fd(), &wire::encode(&Ask { number: asked, request }), &[]).unwrap();
    loop {
        let ReceivedPacket::Packet(bytes, beside) = wire::receive(socket.as_fd()).unwrap() else {
            panic!("the end")
        };
        if let Tell::Reply { number, outcome } = wire::decode(&bytes).unwrap()
            && number == asked
        {
            return (outcome.expect("it is granted"), beside);
        }
    }
}

fn map(file: &OwnedFd, bytes: u64) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a mapping where nothing was.
    let base =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes as usize, access, MapFlags::SHARED, file, 0) };
    base.expect("its own file").cast()
}

fn ignore<T>(_: T) {}

/// System calls that a descriptor allows, or might. Whether the kernel performs them does not matter here.
type Call = (&'static str, fn(BorrowedFd<'_>));

const CALLS: &[Call] = &[
    ("ftruncate to nothing", |file| ignore(rustix::fs::ftruncate(file, 0))),
    ("ftruncate to a page", |file| ignore(rustix::fs::ftruncate(file, 4096))),
    ("ftruncate to more", |file| ignore(rustix::fs::ftruncate(file, 1 << 30))),
    ("fallocate", |file| ignore(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 1 << 22))),
    ("fallocate beyond", |file| {
        ignore(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, SECTION, SECTION))
    }),
    ("punch a hole", |file| {
        ignore(rustix::fs::fallocate(
            file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            0,
            SECTION,
        ));
    }),
    ("collapse a range", |file| ignore(rustix::fs::fallocate(file, FallocateFlags::COLLAPSE_RANGE, 0, 4096))),
    ("zero a range", |file| ignore(rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, 0, 4096))),
    ("insert a range", |file| ignore(rustix::fs::fallocate(file, FallocateFlags::INSERT_RANGE, 0, 4096))),
    ("seal against writing", |file| ignore(rustix::fs::fcntl_add_seals(file, SealFlags::WRITE))),
    ("seal against mapping", |file| ignore(rustix::fs::fcntl_add_seals(file, SealFlags::FUTURE_WRITE))),
    ("seal against seals", |file| ignore(rustix::fs::fcntl_add_seals(file, SealFlags::SEAL))),
    ("set all flags", |file| {
        ignore(rustix::fs::fcntl_setfl(
            file,
            OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT | OFlags::NOATIME,
        ));
        ignore(rustix::fs::fcntl_setfl(file, OFlags::APPEND | OFlags::NONBLOCK));
    }),
    ("take leases", |file| {
        for lease in [libc::F_RDLCK, libc::F_WRLCK] {
            // SAFETY: a call with numbers only.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, lease) };
        }
    }),
    ("lock", |file| ignore(rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive))),
    ("write beyond the end", |file| {
        ignore(rustix::io::pwrite(file, &[1; 8192], SECTION - 4096));
        ignore(rustix::io::pwrite(file, &[1; 64], 1 << 40));
    }),
    ("open again", |file| {
        for flags in [OFlags::RDWR, OFlags::RDWR | OFlags::TRUNC, OFlags::WRONLY | OFlags::APPEND] {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            // Nonblocking: its own lease would be in the way.
            if let Ok(again) = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty()) {
                let _ = rustix::fs::ftruncate(&again, 0);
                // SAFETY: a call with numbers only.
                unsafe { libc::fcntl(again.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
                // It stays open, and leased, for good.
                std::mem::forget(again);
            }
        }
    }),
    ("change mode and owner", |file| {
        ignore(rustix::fs::fchmod(file, Mode::empty()));
        ignore(rustix::fs::fchown(file, Some(rustix::fs::Uid::from_raw(NOBODY)), None));
    }),
    ("advise on a mapping", |file| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, which ends with the process.
        unsafe {
            for access in [access, ProtFlags::READ] {
                let mapped = rustix::mm::mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, file, 0);
                let Ok(base) = mapped else { continue };
                for advice in
                    [Advice::LinuxRemove, Advice::LinuxDontNeed, Advice::LinuxFree, Advice::LinuxHugepage]
                {
                    let _ = rustix::mm::madvise(base, 4096, advice);
                }
                let _ = rustix::mm::mprotect(base, 4096, rustix::mm::MprotectFlags::WRITE);
                let _ = rustix::mm::mremap(base, 4096, 1 << 22, MremapFlags::MAYMOVE);
            }
        }
    }),
];

fn is_answered(honest: &Client) {
    let mut request = honest.request(16).expect("a buffer");
    request.body().put(0, [20u64, 22]).expect("sixteen bytes");
    let answer = request.call("sum").expect("an answer");
    assert_eq!(answer.body().get::<u64>(0).expect("eight bytes"), 42);
}

fn survives(backing: Backing, user: Option<u32>) {
    let pool = Pool::with(MemoryMode::Coherent, "64MiB", |options| {
        options.backing = backing.clone();
        if user.is_some() {
            options.permissions = 0o666;
        }
    });
    let folder = pool.socket().parent().unwrap().to_owned();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711)).unwrap();
    let mut server = start("server", &pool.socket(), None);
    assert!(says(&mut server, "ready"));
    let honest = pool.client(client::Options { deadline: Some(PATIENCE), ..client::Options::default() });
    is_answered(&honest);
    let mut hostile = start("hostile", &pool.socket(), user);
    let ended = loop {
        is_answered(&honest);
        if let Some(ended) = hostile.try_wait().unwrap() {
            break ended;
        }
    };
    assert!(ended.success() && says(&mut hostile, "tried"), "{ended}: it is answered after each");
    is_answered(&honest);
    // The manager goes on, too: it leases, and accepts new clients.
    is_answered(&pool.client(client::Options { deadline: Some(PATIENCE), ..client::Options::default() }));
    assert!(server.try_wait().unwrap().is_none(), "the server goes on");
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn every_call_on_files_without_a_name_is_survived() {
    let user = rustix::process::geteuid().is_root().then_some(NOBODY);
    survives(Backing::Memfd { huge: false }, user);
    survives(Backing::Memfd { huge: false }, None);
}

/// Huge pages are refused between users, since touching a hole in the last one ends a process. Here there are spare
/// ones.
#[test]
fn every_call_on_huge_pages_is_survived_while_there_are_others() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    match free.ok().and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(free) if free >= 32 => survives(Backing::Memfd { huge: true }, None),
        _ => skip(TestRequirement::HugePages, "needs 32 huge pages (vm.nr_hugepages)"),
    }
}
