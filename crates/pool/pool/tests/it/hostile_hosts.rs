//! A host that writes anything into what it may write: its own record, claims and rings. Another host goes on, and
//! gives nothing away that it has.

use crate::common::{ALL, PATIENCE, doorbells::Doorbells, folder::Folder};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::listing::Listing;
use unrack_pool::manager::{Format, HostOptions, format};
use unrack_pool::wire::{Access, Cause, ChannelId, ClientId, Extent, OpenedChannel, PeerProcess, encode};
use unrack_pool::{Client, Manager, Options, SECTION};
use unrack_units::Bytes;

const BYTES: u64 = 32 << 20;
const HOSTS: u64 = 2;
const PAGE: u64 = 4096;
const RING: u64 = 32 << 10;
/// Host that breaks the rules.
const US: u64 = 1;

/// Records of layout version 2, for one device and two hosts (`hosts/layout.rs` has the offsets).
struct Records {
    base: *mut AtomicU64,
    written: u64,
    beat: u64,
}

impl Records {
    fn map(folder: &Folder) -> Records {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(folder.path("device")).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping where nothing was, of a file that keeps its size.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), BYTES as usize, access, MapFlags::SHARED, &file, 0)
                .unwrap()
        };
        Records { base: base.cast(), written: 0, beat: 0 }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset + 8 <= BYTES);
        // SAFETY: inside the mapping, which stays; atomics may be shared.
        unsafe { &*self.base.add(offset as usize / 8) }
    }

    fn head(&self, host: u64, word: u64) -> &AtomicU64 {
        self.word(PAGE + host * PAGE + word * 8)
    }

    /// Returns a word of a host's link to the other: epoch, ready, written, read.
    fn link(&self, host: u64, word: u64) -> &AtomicU64 {
        self.head(host, 64 + (1 - host) * 8 + word)
    }

    fn claim(&self, host: u64, section: u64) -> &AtomicU64 {
        self.word(PAGE + HOSTS * PAGE + host * PAGE + section * 8)
    }

    fn ring(&self, position: u64) -> &AtomicU64 {
        let rings = PAGE + HOSTS * PAGE * 2;
        self.word(rings + US * HOSTS * RING + position % RING)
    }

    fn beat(&mut self) {
        self.beat += 1;
        self.head(US, 8).store(self.beat, Ordering::SeqCst);
    }

    /// Joins as a host does, and waits until the link is up.
    fn join(&mut self) {
        self.written = 0;
        self.head(US, 0).store(7, Ordering::SeqCst);
        self.head(US, 3).store(1, Ordering::SeqCst);
        let epoch = self.link(US, 0).load(Ordering::SeqCst) % 1000 + 1;
        self.link(US, 3).store(0, Ordering::SeqCst);
        self.link(US, 2).store(epoch << 48, Ordering::SeqCst);
        self.link(US, 0).store(epoch, Ordering::SeqCst);
        let start = Instant::now();
        while self.link(0, 1).load(Ordering::SeqCst) != epoch {
            self.beat();
            self.link(US, 1).store(self.link(0, 0).load(Ordering::SeqCst), Ordering::SeqCst);
            assert!(start.elapsed() < PATIENCE, "the link does not come up");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.link(US, 1).store(self.link(0, 0).load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Returns whether the link is up as far as this side can tell.
    fn is_up(&self) -> bool {
        let [epoch, theirs] = [US, 0].map(|host| self.link(host, 0).load(Ordering::SeqCst));
        self.link(0, 1).load(Ordering::SeqCst) == epoch && self.link(US, 1).load(Ordering::SeqCst) == theirs
    }

    /// Sends a message by the rules, and says that all answers were read.
    fn send(&mut self, message: &[u8]) {
        self.beat();
        self.ring(self.written).store(message.len() as u64, Ordering::SeqCst);
        for (chunk, at) in message.chunks(8).zip(1..) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.ring(self.written + at * 8).store(u64::from_le_bytes(word), Ordering::SeqCst);
        }
        self.written += 8 + message.len().next_multiple_of(8) as u64;
        let epoch = self.link(US, 0).load(Ordering::SeqCst);
        self.link(US, 2).store(epoch << 48 | self.written, Ordering::SeqCst);
        self.link(US, 3).store(self.link(0, 2).load(Ordering::SeqCst) & ((1 << 48) - 1), Ordering::SeqCst);
        let start = Instant::now();
        while self.is_up() && self.link(0, 3).load(Ordering::SeqCst) < self.written {
            self.beat();
            assert!(start.elapsed() < PATIENCE, "a message is not read");
            std::thread::yield_now();
        }
    }
}

struct Honest {
    manager: Manager,
    client: Client,
    server: Client,
}

impl Honest {
    fn start(folder: &Folder) -> Honest {
        std::fs::File::create(folder.path("device")).and_then(|file| file.set_len(BYTES)).unwrap();
        let asked = Format {
            paths: vec![folder.path("device")],
            granularity: 4096,
            hosts: HOSTS as u32,
            queue_bytes: Bytes::new(64 << 10),
            mode: MemoryKind::Coherent,
            force: false,
        };
        format(&asked).unwrap();
        let place = HostOptions {
            name: "honest".into(),
            silence: Duration::from_millis(300),
            doorbell: Some(Doorbells::new(HOSTS as u32).of(0)),
            ..HostOptions::new(0)
        };
        let mut options = Options::for_host(folder.path("pool.sock"), asked.paths, place).unwrap();
        options.per_client = Some(ALL);
        let manager = Manager::start(&options).unwrap();
        let [client, server] =
            ["client", "server"].map(|name| Client::connect_as(manager.socket(), name).unwrap());
        Honest { manager, client, server }
    }

    /// Does what processes of one host do with each other.
    fn works(&self) {
        let service = self.server.register("honest").expect("nobody else has the name");
        let (near, far) = std::thread::scope(|scope| {
            let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
            (self.client.open("honest", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
        });
        let arena = self.client.arena();
        arena.share_with(&near, Access::Read).unwrap();
        let buffer = arena.alloc(9000).unwrap();
        assert!(far.resolve(buffer.offset(), 9000, Access::Read).is_some());
        arena.free(buffer);
    }
}

#[test]
fn noise_in_a_hosts_record_harms_no_other() {
    let folder = Folder::in_memory();
    let honest = Honest::start(&folder);
    let mut records = Records::map(&folder);
    let mut random = SmallRng::seed_from_u64(24);
    for round in 0..60_000 {
        if round % 6000 == 0 {
            // Long enough for the other host to look at all of it.
            std::thread::sleep(Duration::from_millis(60));
        }
        let noise: u64 = random.random();
        let value = if random.random() { noise } else { noise % 70 };
        match random.random_range(0..5) {
            0 => {
                // Among them the words that declare the other host ended, and its incarnation, which is 1.
                records.head(US, random.random_range(0..192)).store(value, Ordering::SeqCst);
            }
            1 => records.link(US, random.random_range(0..4)).store(value, Ordering::SeqCst),
            // Not all sections at once, so that the other host has room to work.
            2 => records.claim(US, random.random_range(0..6)).store(value, Ordering::SeqCst),
            3 => records.ring(random.random_range(0..RING / 8) * 8).store(value, Ordering::SeqCst),
            _ => records.beat(),
        }
        if round % 1000 == 0 {
            honest.works();
            Listing::read(&honest.client).unwrap();
        }
    }
    honest.works();
    drop(honest.manager);
}

/// What noise may be, small numbers above all, in all words by which a host declares another ended: each for longer than
/// the other host takes to look.
#[test]
fn noise_is_no_declaration_that_another_host_has_ended() {
    let folder = Folder::in_memory();
    let honest = Honest::start(&folder);
    let records = Records::map(&folder);
    for value in (0..4).chain([1 << 63, u64::MAX, records.head(0, 0).load(Ordering::SeqCst)]) {
        (16..32).for_each(|word| records.head(US, word).store(value, Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(120));
        honest.works();
    }
}

#[test]
fn messages_that_are_anything_harm_no_other_host() {
    let folder = Folder::in_memory();
    let honest = Honest::start(&folder);
    let mut records = Records::map(&folder);
    let service = honest.server.register("open").unwrap();
    let kept = honest.client.lease(2).unwrap();
    let mut random = SmallRng::seed_from_u64(42);
    records.claim(US, 3).store(7, Ordering::SeqCst);
    let started = Instant::now();
    for round in 0..3000u64 {
        if !records.is_up() {
            records.join();
        }
        let theirs = Extent { offset: 3 * SECTION, bytes: 64 << 10 };
        let extent = match random.random_range(0..4) {
            0 => kept.extent(),
            1 => Extent { offset: random.random(), bytes: random.random() },
            2 => Extent { offset: 0, bytes: 64 << 10 },
            _ => theirs,
        };
        let channel = ChannelId(random.random_range(0..2) << 48 | random.random_range(0..6));
        let process = ClientId(random.random_range(0..2) << 48 | random.random_range(0..6));
        let peer = PeerProcess { id: process, pid: random.random(), uid: 0, gid: 0, name: "mallory".into() };
        let offer = OpenedChannel {
            channel,
            peer: peer.clone(),
            queues: extent,
            wakeup: random.random(),
            rings: random.random(),
            greeting: vec![],
        };
        let name = ["open", "honest", "none", ""][random.random_range(0..4)];
        // Each message is its variant's number, and its fields.
        let message = match random.random_range(0..13u32) {
            0 => encode(&(0u32, name, &peer)),
            1 => encode(&(1u32, name)),
            2 => encode(&(2u32, name, &offer)),
            3 => encode(&(3u32, channel, Ok::<_, ()>((&peer, vec![0u8; random.random_range(0..3000)])))),
            4 => encode(&(5u32, channel, extent, Access::Write)),
            5 => encode(&(6u32, channel, extent.offset)),
            6 => encode(&(7u32, channel, extent.offset)),
            7 => encode(&(8u32, channel, extent.offset)),
            8 => encode(&(9u32, channel)),
            9 => encode(&(10u32, channel, Cause::Died)),
            10 => encode(&(11u32, channel)),
            _ => (0..random.random_range(0..200)).map(|_| random.random()).collect(),
        };
        records.send(&message);
        while let Ok(Some(offer)) = service.accept(Duration::ZERO) {
            match random.random() {
                true => drop(offer.accept(b"", 0, &[])),
                false => offer.refuse(1, "no"),
            }
        }
        if round % 200 == 0 {
            // The name may be taken by the other host: then it has to give it back.
            records.send(&encode(&(1u32, "honest")));
            honest.works();
        }
    }
    assert!(started.elapsed() < PATIENCE * 10);
    // It lends nothing that it did not claim, and whatever it claimed is free once it has ended.
    assert_eq!(records.claim(0, kept.extent().offset / SECTION).load(Ordering::SeqCst), 1);
    drop((kept, service));
    honest.client.declare_ended(US as u32, true).unwrap();
    let start = Instant::now();
    loop {
        let listing = Listing::read(&honest.client).unwrap();
        if listing.free_bytes == listing.capacity_bytes && listing.channels.is_empty() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{listing}");
        std::thread::sleep(Duration::from_millis(5));
    }
    honest.works();
}

/// Another host opens a channel by the rules, then grants segment after segment, each twice, and withdraws what it never granted. Its name
/// would clear the terminal of whoever lists the pool.
#[test]
fn a_flood_of_grants_from_another_host_ends_its_channel() {
    let folder = Folder::in_memory();
    let honest = Honest::start(&folder);
    let mut records = Records::map(&folder);
    let service = honest.server.register("open").unwrap();
    for section in [3, 4] {
        records.claim(US, section).store(7, Ordering::SeqCst);
    }
    records.join();
    while !records.is_up() {
        records.beat();
        std::thread::sleep(Duration::from_millis(1));
    }
    let channel = ChannelId(1 << 48 | 1);
    let peer =
        PeerProcess { id: ClientId(1 << 48 | 2), pid: 1, uid: 0, gid: 0, name: "mal\u{1b}[2Jlory".into() };
    let queues = Extent { offset: 3 * SECTION, bytes: 64 << 10 };
    let offer =
        OpenedChannel { channel, peer: peer.clone(), queues, wakeup: 0, rings: false, greeting: vec![] };
    records.send(&encode(&(0u32, "theirs", &peer)));
    records.send(&encode(&(2u32, "open", &offer)));
    let offer = service.accept(PATIENCE).unwrap().expect("an offer");
    let near = offer.accept(b"", 0, &[]).unwrap();
    assert!(!Listing::read(&honest.client).unwrap().to_string().contains('\u{1b}'));
    for segment in 0..500u64 {
        let extent = Extent { offset: 4 * SECTION + segment * 4096, bytes: 4096 };
        for message in
            [encode(&(5u32, channel, extent, Access::Write)), encode(&(7u32, channel, extent.offset + 64))]
        {
            records.send(&message);
            records.send(&message);
        }
        if segment == 200 {
            assert_eq!(near.gone(), None, "the limit is 256");
        }
    }
    let start = Instant::now();
    while near.gone().is_none() {
        assert!(start.elapsed() < PATIENCE, "the channel must end");
        records.beat();
        std::thread::sleep(Duration::from_millis(1));
    }
    honest.works();
}
