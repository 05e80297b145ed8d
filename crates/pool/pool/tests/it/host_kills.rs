//! Hosts that share a device are killed, stopped and fenced at any moment: no section belongs to two hosts, and all
//! come back.
//!
//! Each host is a manager and processes that lease, mark, open channels to processes of their own host and of
//! others, and check marks, as in [`kills`](crate::kills). The test kills a process, a manager, or a host with all its
//! processes, which it then declares ended or not; or stops a host for longer than the others wait, and lets it go
//! on. `UNRACK_POOL_KILLS` sets how often; the seed is printed, and set by `UNRACK_POOL_SEED`.

use crate::common::{ALL, folder::Folder};
use crate::kills::{SETTLES, WORKERS, connect, kills, start};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use unrack_pool::Options;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::listing::Listing;
use unrack_pool::manager::{Format, HostOptions, format};
use unrack_units::Bytes;

const HOSTS: usize = 3;
const SILENCE: Duration = Duration::from_millis(250);

pub(crate) fn socket(folder: &Path, host: usize) -> PathBuf {
    folder.join(format!("pool{host}.sock"))
}

/// Returns the host of a worker.
pub(crate) fn host_of(worker: usize) -> usize {
    worker % HOSTS
}

pub(crate) fn options(folder: &Path, host: usize) -> Options {
    let place =
        HostOptions { name: format!("host{host}"), silence: SILENCE, ..HostOptions::new(host as u32) };
    let mut options =
        Options::for_host(socket(folder, host), vec![folder.join("device")], place).expect("it is formatted");
    options.per_client = Some(ALL);
    options.region_sections = 2;
    options
}

/// A manager and its processes.
struct Host {
    number: usize,
    place: PathBuf,
    manager: Child,
    workers: Vec<(usize, Child)>,
}

impl Host {
    fn start(place: &Path, number: usize) -> Host {
        let workers = (0..WORKERS * 2).filter(|worker| host_of(*worker) == number);
        let mut host = Host {
            number,
            place: place.into(),
            manager: start(format!("host,{},{number}", place.display())),
            workers: Vec::new(),
        };
        host.workers = workers.map(|worker| (worker, host.worker(worker))).collect();
        host
    }

    fn worker(&self, number: usize) -> Child {
        start(format!("host-worker,{},{number}", self.place.display()))
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Child> {
        std::iter::once(&mut self.manager).chain(self.workers.iter_mut().map(|(_, child)| child))
    }

    fn signal(&mut self, signal: Signal) {
        for child in self.all() {
            kill_process(Pid::from_child(child), signal).expect("it runs");
        }
    }

    /// Checks that all run, or have been killed by the test.
    fn check(&mut self, seed: u64) {
        for child in self.all() {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended by itself: {status}; UNRACK_POOL_SEED={seed}");
            }
        }
    }
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn hosts_are_killed_stopped_and_fenced_at_random() {
    let seed = std::env::var("UNRACK_POOL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = SmallRng::seed_from_u64(seed);
    let folder = Folder::in_memory();
    let place = folder.path("");
    std::fs::File::create(folder.path("device")).and_then(|file| file.set_len(96 << 20)).unwrap();
    let asked = Format {
        paths: vec![folder.path("device")],
        granularity: 4096,
        hosts: HOSTS as u32,
        queue_bytes: Bytes::new(64 << 10),
        mode: MemoryKind::Coherent,
        force: false,
    };
    format(&asked).expect("it is formatted");
    let mut hosts: Vec<Host> = (0..HOSTS).map(|number| Host::start(&place, number)).collect();
    for _ in 0..kills() {
        std::thread::sleep(Duration::from_micros(random.random_range(0..12_000)));
        let at = random.random_range(0..HOSTS);
        hosts[at].check(seed);
        match random.random_range(0..16) {
            0 => {
                hosts[at].all().for_each(end);
                if random.random() {
                    let agent = connect(&socket(&place, (at + 1) % HOSTS), "agent");
                    agent.declare_ended(at as u32, true).expect("it is another host");
                }
                hosts[at] = Host::start(&place, at);
            }
            1 => {
                hosts[at].signal(Signal::STOP);
                std::thread::sleep(SILENCE * 2);
                hosts[at].signal(Signal::CONT);
            }
            2..6 => {
                end(&mut hosts[at].manager);
                hosts[at].manager = start(format!("host,{},{at}", place.display()));
            }
            _ => {
                let which = random.random_range(0..hosts[at].workers.len());
                end(&mut hosts[at].workers[which].1);
                let number = hosts[at].workers[which].0;
                hosts[at].workers[which].1 = hosts[at].worker(number);
            }
        }
    }
    let seen = std::fs::metadata(folder.path("far-seen")).map_or(0, |file| file.len());
    assert!(seen > 0, "no process has checked a buffer of another host; UNRACK_POOL_SEED={seed}");
    for host in &mut hosts {
        host.check(seed);
        host.workers.iter_mut().for_each(|(_, child)| end(child));
    }
    for host in &hosts {
        settle(&socket(&place, host.number), seed);
    }
    hosts.iter_mut().for_each(|host| end(&mut host.manager));
}

/// Waits until a host lists nothing but itself and the others, linked, and all sections are free.
fn settle(socket: &Path, seed: u64) {
    let observer = connect(socket, "observer");
    let start = Instant::now();
    loop {
        let found = Listing::read(&observer);
        if let Ok(listing) = &found {
            let nothing =
                listing.processes.is_empty() && listing.channels.is_empty() && listing.segments.is_empty();
            let linked = listing.hosts.iter().all(|host| host.is_here || host.is_linked);
            let unclaimed = listing.hosts.iter().all(|host| host.claimed_bytes == 0);
            if nothing && linked && unclaimed && listing.free_bytes == listing.capacity_bytes {
                assert_eq!(listing.hosts.len(), HOSTS);
                return;
            }
        }
        let found = found.map(|listing| listing.to_string());
        assert!(start.elapsed() < SETTLES, "{found:?}; UNRACK_POOL_SEED={seed}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
