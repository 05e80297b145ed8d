//! A manager in a folder of its own, and processes that are threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use unrack_pool::{Client, Manager, Options};
use unrack_units::Bytes;

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that is gone with its owner.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("unrack-pool-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for a test");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub struct Pool {
    pub manager: Manager,
    _folder: Folder,
}

impl Pool {
    pub fn new(change: impl FnOnce(&mut Options)) -> Pool {
        let folder = Folder::new();
        let mut options = Options::new(folder.path("pool.sock"), Bytes::new(64 << 20));
        change(&mut options);
        let manager = Manager::start(&options).expect("a manager starts");
        Pool { manager, _folder: folder }
    }

    pub fn client(&self, name: &str) -> Client {
        Client::connect_as(self.manager.socket(), name).expect("the manager is there")
    }
}
