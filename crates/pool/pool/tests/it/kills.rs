//! Processes and managers are killed at any moment: no byte is lost, and none belongs to two processes.
//!
//! Workers lease, allocate, mark their buffers, open channels, and read each other's buffers; each checks its
//! marks. The test kills workers and the manager with `SIGKILL` at random moments, starts others, and audits the
//! books. `UNRACK_POOL_KILLS` sets how many die; the seed is printed, and set by `UNRACK_POOL_SEED`.

use crate::common::folder::Folder;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::manager::Backing;
use unrack_pool::wire::{Access, Denied, ListingEntry};
use unrack_pool::{Arena, Channel, Client, Error, Manager, Options, SECTION, Service};
use unrack_units::Bytes;

const CAPACITY: u64 = 64 << 20;
pub(crate) const WORKERS: usize = 3;
pub(crate) const SETTLES: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(100);

fn options(folder: &Path, backing: &str) -> Options {
    let mut options = Options::new(folder.join("pool.sock"), Bytes::new(CAPACITY));
    options.region_sections = 2;
    match backing {
        "devices" => {
            let paths = vec![folder.join("device0"), folder.join("device1")];
            options.backing = Backing::Devices { paths, granularity: 16384 };
        }
        "memfd" => {}
        segments => options.backing = Backing::Directory(segments.into()),
    }
    options
}

/// Role of this program if a test started it; does nothing otherwise.
#[test]
fn role() {
    let Ok(role) = std::env::var("UNRACK_POOL_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    // A panic ends the whole process, whatever its other threads do: the test notices only that.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    let words: Vec<&str> = role.split(',').collect();
    let folder = Path::new(words[1]);
    match words[0] {
        "manager" => manage(&options(folder, words[2])),
        "host" => manage(&crate::host_kills::options(folder, words[2].parse().unwrap())),
        "host-worker" => {
            let number = words[2].parse().unwrap();
            work(&crate::host_kills::socket(folder, crate::host_kills::host_of(number)), number as u64);
        }
        _ => work(&folder.join("pool.sock"), words[2].parse().unwrap()),
    }
}

pub(crate) fn start(role: String) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::role", "--nocapture", "--test-threads=1"]);
    let folder = Path::new(role.split(',').nth(1).expect("a folder"));
    command.env(FAR, folder.join("far-seen")).env("UNRACK_POOL_ROLE", role);
    command.stdout(Stdio::null()).spawn().expect("this program can be started")
}

fn manage(options: &Options) {
    let deadline = Instant::now() + SETTLES;
    let _manager = loop {
        match Manager::start(options) {
            Ok(manager) => break manager,
            // The manager that was killed has not quite ended.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    loop {
        std::thread::park();
    }
}

/// Does all that a process does with a pool, over and over, until it is killed.
fn work(socket: &Path, number: u64) {
    let client = connect(socket, &format!("worker-{number}"));
    let service = loop {
        match client.register(&format!("worker-{number}")) {
            Ok(service) => break service,
            Err(error) => tolerate(error),
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&service));
        let mut random = SmallRng::seed_from_u64(number);
        loop {
            allocate(&client.arena(), &mut random);
            let peer =
                format!("worker-{}", (number + random.random_range(1..WORKERS as u64)) % WORKERS as u64);
            match client.open(&peer, b"", 0, &[], MOMENT) {
                Ok((channel, _)) => show(&client, &channel, random.random()),
                Err(error) => tolerate(error),
            }
        }
    });
}

pub(crate) fn connect(socket: &Path, name: &str) -> Client {
    let deadline = Instant::now() + SETTLES;
    loop {
        match Client::connect_as(socket, name) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Accepts the errors that may result when others are killed, or when a manager gets no processor for [`MOMENT`].
fn tolerate(error: Error) {
    match error {
        Error::ManagerGone
        | Error::TimedOut(_)
        | Error::Silent { .. }
        | Error::Denied(
            Denied::NoService(_)
            | Denied::NameTaken { .. }
            | Denied::Full { .. }
            | Denied::Quota { .. }
            | Denied::Gone { .. }
            | Denied::Refused(_)
            | Denied::Slow(_)
            | Denied::HostSilent(_)
            | Denied::Limit { .. }
            | Denied::NotYours,
        ) => {}
        error => panic!("{error}"),
    }
}

/// Marks buffers of all sizes, and checks that they keep their marks.
fn allocate(arena: &Arena, random: &mut SmallRng) {
    static MARKS: AtomicU64 = AtomicU64::new(1);
    let mut held = Vec::new();
    for _ in 0..random.random_range(1..40) {
        let bytes = match random.random_range(0..8) {
            0 => random.random_range(1..3 * SECTION),
            _ => random.random_range(1..9000),
        };
        match arena.alloc(bytes) {
            Ok(buffer) => {
                let mark = (std::process::id() as u64) << 32 | MARKS.fetch_add(1, Ordering::Relaxed);
                // SAFETY: ours, aligned, and at least a line long.
                unsafe {
                    (buffer.as_ptr() as *mut u64).write_volatile(mark);
                    (buffer.as_ptr().add(buffer.capacity() as usize - 8) as *mut u64).write_volatile(mark);
                }
                held.push((buffer, mark));
            }
            Err(error) => tolerate(error),
        }
        if random.random_range(0..3) == 0 && !held.is_empty() {
            let at = random.random_range(0..held.len());
            let (buffer, mark) = held.swap_remove(at);
            check(&buffer, mark);
            arena.free(buffer);
        }
    }
    for (buffer, mark) in held {
        check(&buffer, mark);
        arena.free(buffer);
    }
}

fn check(buffer: &unrack_pool::Buffer, mark: u64) {
    // SAFETY: as it was written.
    let found = unsafe {
        let last = buffer.as_ptr().add(buffer.capacity() as usize - 8) as *mut u64;
        [(buffer.as_ptr() as *mut u64).read_volatile(), last.read_volatile()]
    };
    assert_eq!(found, [mark, mark], "somebody else has the buffer at {:#x}", buffer.offset());
}

/// Returns an entry of a queue area: offset, mark, flag that these are there, flag that they were read.
fn entry(channel: &Channel, at: usize) -> &AtomicU64 {
    // SAFETY: a queue area is at least a page, and aligned; atomics may be shared.
    unsafe { channel.queue_base().cast::<AtomicU64>().add(at * 8).as_ref() }
}

fn wait_for(channel: &Channel, at: usize) -> bool {
    let start = Instant::now();
    while entry(channel, at).load(Ordering::Acquire) == 0 {
        if channel.gone().is_some() || start.elapsed() > MOMENT {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Shows a peer a buffer, and leaves it unchanged for as long as the peer may look.
fn show(client: &Client, channel: &Channel, mark: u64) {
    let arena = client.arena();
    if let Err(error) = arena.share_with(channel, Access::Read) {
        return tolerate(error);
    }
    match arena.alloc(4096) {
        Ok(buffer) => {
            // SAFETY: ours, and long enough.
            unsafe { (buffer.as_ptr() as *mut u64).write_volatile(mark) };
            entry(channel, 0).store(buffer.offset(), Ordering::Relaxed);
            entry(channel, 1).store(mark, Ordering::Relaxed);
            entry(channel, 2).store(1, Ordering::Release);
            wait_for(channel, 3);
            arena.free(buffer);
        }
        Err(error) => tolerate(error),
    }
}

/// Accepts all callers, and checks the buffers that they show.
fn answer(service: &Service) {
    loop {
        let offer = match service.accept(MOMENT) {
            Ok(Some(offer)) => offer,
            Ok(None) => continue,
            Err(error) => {
                tolerate(error);
                continue;
            }
        };
        match offer.accept(b"", 1, &[]) {
            Ok(channel) => {
                if wait_for(&channel, 2) {
                    let offset = entry(&channel, 0).load(Ordering::Relaxed);
                    // Unknown if the manager was killed between the grant and now, and the owner with it.
                    if let Some(found) = channel.resolve(offset, 4096, Access::Read) {
                        // SAFETY: granted, and mapped as long as the channel exists, even if its processes died.
                        let found = unsafe { (found.as_ptr() as *const u64).read_volatile() };
                        assert_eq!(found, entry(&channel, 1).load(Ordering::Relaxed), "another's bytes");
                        if channel.peer().is_far() {
                            note_far();
                        }
                    }
                    entry(&channel, 3).store(1, Ordering::Release);
                }
            }
            Err(error) => tolerate(error),
        }
    }
}

/// Notes in a file that a buffer of another host was checked, so that the test knows that some were.
fn note_far() {
    let Some(seen) = std::env::var_os(FAR) else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(seen);
    std::io::Write::write_all(&mut file.unwrap(), b"1").unwrap();
}

/// Variable that names a file which grows with each buffer of another host that a process checked.
pub(crate) const FAR: &str = "UNRACK_POOL_FAR";

/// Checks that nothing overlaps, all has an owner, and numbers add up. Returns whether only the observer is left.
fn audit(observer: &Client) -> Result<bool, String> {
    let listed = observer.list().map_err(|error| error.to_string())?;
    let mut free = None;
    let (mut clients, mut extents, mut used) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    for entry in &listed {
        match entry {
            ListingEntry::Pool { free_bytes, .. } => free = Some(*free_bytes),
            ListingEntry::Client { peer, .. } => drop(clients.insert(peer.id)),
            ListingEntry::Segment { extent, .. } => {
                extents.push(*extent);
                used.extend(extent.offset / SECTION..extent.end() / SECTION);
            }
            ListingEntry::Channel { queues, .. } => {
                extents.push(*queues);
                used.insert(queues.offset / SECTION);
            }
            ListingEntry::Service { .. } | ListingEntry::Host { .. } | ListingEntry::FarService { .. } => {}
        }
    }
    for entry in &listed {
        let known = match entry {
            ListingEntry::Segment { owner, granted, .. } => {
                (owner.is_some() || !granted.is_empty())
                    && owner.iter().chain(granted.iter().map(|(to, _)| to)).all(|id| clients.contains(id))
            }
            ListingEntry::Service { by, .. } => clients.contains(by),
            _ => true,
        };
        if !known {
            return Err(format!("{entry:?} is nobody's"));
        }
    }
    extents.sort_by_key(|extent| extent.offset);
    if let Some(pair) = extents.windows(2).find(|pair| pair[0].end() > pair[1].offset) {
        return Err(format!("{:?} and {:?} overlap", pair[0], pair[1]));
    }
    let free = free.ok_or("no pool is listed")? / SECTION;
    let lost = CAPACITY / SECTION - free - used.len() as u64;
    // A list may combine several moments, but sections are never more, and none is lost while nobody takes any.
    let alone = clients.len() == 1;
    if free + used.len() as u64 > CAPACITY / SECTION || lost > if alone { 0 } else { 2 } {
        return Err(format!("{free} sections are free and {} used of {}", used.len(), CAPACITY / SECTION));
    }
    Ok(alone)
}

fn settle(observer: &Client, what: &str, seed: u64, done: impl Fn(bool) -> bool) {
    let start = Instant::now();
    loop {
        let audited = audit(observer);
        match audited {
            Ok(alone) if done(alone) => return,
            other => assert!(start.elapsed() < SETTLES, "{what}: {other:?}; UNRACK_POOL_SEED={seed}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill_at_random(backing: &str, kills: u64) {
    let seed = std::env::var("UNRACK_POOL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id() as u64);
    let mut random = SmallRng::seed_from_u64(seed);
    let folder = Folder::new();
    let segments = Folder::in_memory();
    let backing =
        if backing == "directory" { segments.path("").display().to_string() } else { backing.into() };
    for device in ["device0", "device1"] {
        std::fs::File::create(folder.path(device)).and_then(|file| file.set_len(CAPACITY / 2)).unwrap();
    }
    let place = folder.path("");
    let place = place.display();
    let mut manager = start(format!("manager,{place},{backing}"));
    let worker = |number: usize| start(format!("worker,{place},{number}"));
    let mut workers: Vec<Child> = (0..WORKERS).map(worker).collect();
    let observer = connect(&folder.path("pool.sock"), "observer");
    for _ in 0..kills {
        std::thread::sleep(Duration::from_micros(random.random_range(0..12_000)));
        let which = random.random_range(0..WORKERS + 1);
        let victim = if which == WORKERS { &mut manager } else { &mut workers[which] };
        if let Some(status) = victim.try_wait().unwrap() {
            panic!("it ended by itself: {status}; UNRACK_POOL_SEED={seed}");
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        *victim = if which == WORKERS { start(format!("manager,{place},{backing}")) } else { worker(which) };
        if random.random_range(0..8) == 0 {
            settle(&observer, "while others work", seed, |_| true);
        }
    }
    for mut worker in workers {
        assert!(worker.try_wait().unwrap().is_none(), "it ended by itself; UNRACK_POOL_SEED={seed}");
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    settle(&observer, "when all are dead", seed, |alone| alone);
    let left = std::fs::read_dir(segments.path("")).unwrap().count();
    manager.kill().unwrap();
    manager.wait().unwrap();
    assert_eq!(left, 0, "files of segments; UNRACK_POOL_SEED={seed}");
}

pub(crate) fn kills() -> u64 {
    std::env::var("UNRACK_POOL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(150)
}

#[test]
fn killed_at_random() {
    kill_at_random("memfd", kills());
}

#[test]
fn killed_at_random_with_files_in_a_directory() {
    kill_at_random("directory", kills());
}

/// Runs on devices, where a byte that two processes had would be the same byte: segments reuse others' memory.
#[test]
fn killed_at_random_on_devices() {
    kill_at_random("devices", kills());
}
