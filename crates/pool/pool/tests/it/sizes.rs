//! Requested and available memory: a manager compares them before it makes anything, and leaves nothing if it
//! fails.

use crate::common::{PATIENCE, folder::Folder};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use unrack_pool::manager::{self, Backing, Error};
use unrack_pool::{Client, Manager, Options, SECTION};
use unrack_testing::{TestRequirement, skip};
use unrack_units::Bytes;

fn options(folder: &Folder, capacity: u64) -> Options {
    Options::new(folder.path("pool.sock"), Bytes::new(capacity))
}

/// Returns the bytes that a folder's files occupy on the disk.
fn used(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    files.map(|file| file.blocks() * 512).sum()
}

#[test]
fn capacities_from_tiny_to_absurd_leave_nothing_behind() {
    let folder = Folder::new();
    let most = u64::from(u32::MAX) / 4 * SECTION;
    for (capacity, why) in [
        (0, "whole number"),
        (1, "whole number"),
        (SECTION - 1, "whole number"),
        (SECTION + 1, "whole number"),
        (100 << 40, "give less"),
        (most, "give less"),
        (most + SECTION, "whole number"),
        (1 << 63, "whole number"),
        (u64::MAX / SECTION * SECTION, "whole number"),
        (u64::MAX, "whole number"),
    ] {
        let start = Instant::now();
        let refused = Manager::start(&options(&folder, capacity)).map(drop);
        let text = refused.expect_err("no machine has that").to_string();
        assert!(text.contains(why), "{capacity}: {text}");
        assert!(start.elapsed() < PATIENCE, "{capacity}");
        assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0, "{capacity}");
    }
}

/// The smallest pool works, and the ledger of any pool is small.
#[test]
fn the_ledger_does_not_grow_with_the_capacity() {
    for capacity in [SECTION, 64 << 20, manager::default_capacity().get()] {
        let folder = Folder::new();
        let manager = Manager::start(&options(&folder, capacity)).expect("there is as much");
        assert!(used(&folder.path("")) < 512 << 10, "{capacity}: {}", used(&folder.path("")));
        let client = Client::connect_as(manager.socket(), "one").unwrap();
        drop(client.lease(1).expect("a section"));
        drop(client);
        manager.stop();
        assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0);
    }
}

/// A capacity above the available memory is refused, whatever the memory is; the message says how much there is.
#[test]
fn there_is_less() {
    let folder = Folder::new();
    let segments = Folder::in_memory();
    let backings = [Backing::Memfd { huge: false }, Backing::Directory(segments.path(""))];
    for backing in backings {
        let mut options = options(&folder, 1 << 50);
        options.backing = backing;
        let refused = Manager::start(&options).map(drop).expect_err("no machine has a pebibyte");
        assert!(matches!(refused, Error::NoRoom { .. }), "{refused}");
        let text = refused.to_string();
        assert!(
            text.contains("--capacity 1048576GiB is more than") && text.contains("the free part of"),
            "{text}"
        );
    }
    let mut options = options(&folder, 1 << 50);
    options.backing = Backing::Memfd { huge: true };
    let refused = Manager::start(&options).map(drop).expect_err("no machine has a pebibyte");
    assert!(matches!(refused, Error::NoRoom { .. } | Error::Lacking(_)), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(segments.path("")).unwrap().count(), 0);
}

/// A file with holes does not count as memory until its file system has allocated all of it.
#[test]
fn a_sparse_file_is_compared_with_its_file_system() {
    let folder = Folder::new();
    let device = folder.path("device");
    std::fs::File::create(&device).unwrap().set_len(1 << 43).unwrap();
    let mut options = options(&folder, 1 << 43);
    options.backing = Backing::Devices { paths: vec![device.clone()], granularity: 4096 };
    let refused = Manager::start(&options).map(drop).expect_err("no disk of a test has 8 TiB");
    assert!(refused.to_string().contains("sparse"), "{refused}");
    assert_eq!(std::fs::metadata(&device).unwrap().blocks(), 0, "nothing was filled");
    // The part that the pool uses is allocated.
    options.capacity = Bytes::new(2 * SECTION);
    let manager = Manager::start(&options).expect("the disk has as much");
    assert!(std::fs::metadata(&device).unwrap().blocks() * 512 < 4 * SECTION);
    drop(manager);
}

#[test]
fn a_folder_that_is_not_a_pools_is_refused() {
    let folder = Folder::new();
    let refused = |path: PathBuf| {
        let mut options = options(&folder, 8 * SECTION);
        options.backing = Backing::Directory(path);
        Manager::start(&options).map(drop).expect_err("it is no folder for segments").to_string()
    };
    let mode =
        |path: &Path, bits| std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
    assert!(refused("/etc".into()).contains("others can use it"));
    assert!(refused(folder.path("none")).contains("install -d -m 700"));
    assert!(refused("/dev/null".into()).contains("cannot be opened as a folder"));

    let segments = Folder::in_memory();
    for bits in [0o701, 0o710, 0o750, 0o755, 0o777] {
        mode(&segments.path(""), bits);
        assert!(refused(segments.path("")).contains("others can use it"), "{bits:o}");
    }
    mode(&segments.path(""), 0o700);
    symlink(segments.path(""), folder.path("link")).unwrap();
    assert!(refused(folder.path("link")).contains("cannot be opened as a folder"));
    std::fs::remove_file(folder.path("link")).unwrap();

    // A disk is no memory.
    let disk = folder.path("disk");
    std::fs::create_dir(&disk).unwrap();
    mode(&disk, 0o700);
    let on_tmpfs = rustix::fs::statfs(&disk).unwrap().f_type as u64 == 0x0102_1994;
    assert!(on_tmpfs || refused(disk.clone()).contains("tmpfs"));
    std::fs::remove_dir(&disk).unwrap();

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(segments.path(""), Some(65534), None).unwrap();
        assert!(refused(segments.path("")).contains("others can use it"), "somebody else's");
        std::os::unix::fs::chown(segments.path(""), Some(0), None).unwrap();
    }
    let mut first = options(&folder, 8 * SECTION);
    first.backing = Backing::Directory(segments.path(""));
    first.socket = folder.path("first.sock");
    let manager = Manager::start(&first).expect("a folder of its own");
    assert!(refused(segments.path("")).contains("another pool uses it"));
    manager.stop();
    assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0, "nothing is left of any");
}

/// The pool's own processes use the memory that is missing: the next manager must not ask for it a second time.
#[test]
fn a_pool_that_is_taken_over_is_not_compared() {
    if !rustix::process::geteuid().is_root() {
        return skip(TestRequirement::Root, "needs root, to mount a file system that is nearly full");
    }
    let folder = Folder::in_memory();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "sizes::role", "--nocapture", "--test-threads=1"]);
    let output = command.env("UNRACK_POOL_FOLDER", folder.path("")).output().expect("`unshare` is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Role of this program in a mount namespace of its own.
#[test]
fn role() {
    let Ok(folder) = std::env::var("UNRACK_POOL_FOLDER") else { return };
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m,mode=700", "none", &folder]).status();
    assert!(mounted.expect("`mount` is there").success());
    let place = Folder::new();
    let mut options = options(&place, 32 << 20);
    options.backing = Backing::Directory(folder.into());
    let first = Manager::start(&options).expect("there is just as much");
    let client = Client::connect_as(first.socket(), "one").unwrap();
    let segment = client.lease(8).expect("half of it");
    first.stop();
    assert_eq!(
        manager::capacity_before(&options.socket),
        Some(32 << 20),
        "the next one finds how large it was"
    );
    let other = Options { capacity: Bytes::new(1 << 50), ..options.clone() };
    assert!(
        matches!(Manager::start(&other), Err(Error::OtherPool(_))),
        "and one of another size leaves it alone"
    );

    let second = Manager::start(&options).expect("it takes over, though half is not free");
    let start = Instant::now();
    while client.list().is_err() {
        assert!(start.elapsed() < PATIENCE);
    }
    drop((segment, client));
    second.stop();
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(folder_of(&options)).unwrap().count(), 0);
}

fn folder_of(options: &Options) -> PathBuf {
    match &options.backing {
        Backing::Directory(folder) => folder.clone(),
        other => panic!("{other}"),
    }
}
