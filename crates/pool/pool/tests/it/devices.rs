//! Memory that consists of devices: here files, which are mapped the same way.

use crate::common::{PATIENCE, folder::Folder};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use unrack_pool::cache_control::{MemoryKind, SharedMemory};
use unrack_pool::interleave::Interleave;
use unrack_pool::manager::{Backing, Error as ManagerError};
use unrack_pool::wire::Access;
use unrack_pool::{Client, Error, Manager, Options, SECTION};
use unrack_units::Bytes;

fn devices(folder: &Folder, count: usize, bytes: u64) -> Vec<PathBuf> {
    let paths = (0..count).map(|device| folder.path(&format!("device{device}")));
    let paths: Vec<PathBuf> = paths.collect();
    for path in &paths {
        let file = std::fs::File::create(path).unwrap();
        file.set_len(bytes).unwrap();
        file.write_all_at(&[0xee; 4096], 8192).unwrap();
    }
    paths
}

fn options(folder: &Folder, paths: Vec<PathBuf>, granularity: u64, capacity: u64) -> Options {
    let mut options = Options::new(folder.path("pool.sock"), Bytes::new(capacity));
    options.backing = Backing::Devices { paths, granularity };
    options.per_client = Some(crate::common::ALL);
    options
}

fn pass(mode: MemoryKind, count: usize, granularity: u64) {
    let folder = Folder::new();
    let paths = devices(&folder, count, 12 << 20);
    let mut options = options(&folder, paths.clone(), granularity, count as u64 * (12 << 20));
    options.mode = mode;
    let manager = Manager::start(&options).expect("it starts");
    let server = Client::connect_as(manager.socket(), "server").unwrap();
    let client = Client::connect_as(manager.socket(), "client").unwrap();
    let service = server.register("kv").unwrap();
    let (near, far) = std::thread::scope(|scope| {
        let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
        (client.open("kv", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
    });
    let queues = near.queues();
    // SAFETY: a queue area is mapped, and nobody writes it.
    unsafe {
        let memory = server.memory();
        memory.refresh(far.queue_base().as_ptr(), queues.bytes as usize);
        let bytes = std::slice::from_raw_parts(far.queue_base().as_ptr(), queues.bytes as usize);
        assert!(bytes.iter().all(|byte| *byte == 0), "whatever was on the device before");
    }

    let arena = client.arena();
    arena.share_with(&near, Access::Read).unwrap();
    let buffer = arena.alloc(3 * SECTION).expect("there is room");
    let contents: Vec<u8> = (0..3 * SECTION).map(|byte| (byte / 1000 + byte) as u8).collect();
    let found = far.resolve(buffer.offset(), 3 * SECTION, Access::Read).expect("granted").as_ptr();
    // SAFETY: ours, and long enough; and granted to the server, which reads published bytes.
    unsafe {
        client.memory().write(buffer.as_ptr(), &contents);
        server.memory().refresh(found, contents.len());
        assert!(std::slice::from_raw_parts(found, contents.len()) == contents, "{mode}");
    }
    // Every byte is at the place that the set computes.
    let set = Interleave::new(count as u32, granularity).unwrap();
    let files: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (at, byte) in contents.iter().enumerate().step_by(509) {
        let (device, place) = set.locate(buffer.offset() + at as u64);
        assert_eq!(files[device as usize][place as usize], *byte, "byte {at}");
    }

    // The next manager takes the devices over.
    manager.stop();
    let second = Manager::start(&options).expect("it takes over");
    let more = arena.alloc(SECTION).expect("the next manager leases, too");
    assert!(far.resolve(more.offset(), SECTION, Access::Read).is_some());
    assert!(more.offset() + SECTION <= buffer.offset() || buffer.offset() + 3 * SECTION <= more.offset());
    arena.free(buffer);
    arena.free(more);
    drop((near, far, arena, service, client, server, second));
}

#[test]
fn one_device() {
    pass(MemoryKind::Coherent, 1, 256);
    pass(MemoryKind::Incoherent, 1, 16384);
}

#[test]
fn three_devices_interleaved() {
    pass(MemoryKind::Coherent, 3, 4096);
    pass(MemoryKind::Coherent, 2, 16384);
}

#[test]
fn devices_in_the_model_of_incoherent_memory() {
    pass(MemoryKind::Model, 2, 8192);
}

#[test]
fn devices_that_do_not_do() {
    let folder = Folder::new();
    let paths = devices(&folder, 2, 4 << 20);
    let refused = |paths: &[PathBuf], granularity, capacity| {
        let options = options(&folder, paths.to_vec(), granularity, capacity);
        Manager::start(&options).map(drop).expect_err("it does not do").to_string()
    };
    assert!(refused(&paths, 256, 8 << 20).contains("only the platform"), "a page is on one device");
    assert!(refused(&paths, 300, 8 << 20).contains("power of two"));
    assert!(refused(&paths, 4096, 10 << 20).contains("give a smaller"));
    assert!(refused(&[], 4096, 8 << 20).contains("1 to 8"));
    assert!(refused(&[folder.path("none")], 4096, 4 << 20).contains("none"));
    assert!(refused(&["/dev/null".into()], 4096, 4 << 20).contains("device-DAX"));

    // A pool uses a device exclusively.
    let manager = Manager::start(&options(&folder, paths.clone(), 4096, 8 << 20)).unwrap();
    let mut other = options(&folder, paths[1..].to_vec(), 4096, 4 << 20);
    other.socket = folder.path("other.sock");
    assert!(matches!(Manager::start(&other), Err(ManagerError::Device { .. })));
    let client = Client::connect_as(manager.socket(), "one").unwrap();
    let arena = client.arena();
    assert!(matches!(arena.alloc(10 << 20), Err(Error::Denied(_))));
}
