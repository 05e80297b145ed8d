//! A manager in a folder of its own, and processes that are threads.

pub(crate) mod doorbells;
pub(crate) mod folder;
pub(crate) mod raw;

use folder::Folder;
use std::time::Duration;
use unrack_pool::{Client, Manager, Options};
use unrack_units::{Bytes, Share};

/// Timeout that no working operation reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The whole capacity.
pub(crate) const ALL: Share = Share::Size(Bytes::new(u64::MAX));

pub(crate) struct Pool {
    pub manager: Manager,
    _folder: Folder,
}

impl Pool {
    pub(crate) fn new(change: impl FnOnce(&mut Options)) -> Pool {
        let folder = Folder::new();
        let mut options = Options::new(folder.path("pool.sock"), Bytes::new(64 << 20));
        // The processes of a test are threads of one.
        options.per_client = Some(ALL);
        change(&mut options);
        let manager = Manager::start(&options).expect("a manager starts");
        Pool { manager, _folder: folder }
    }

    pub(crate) fn client(&self, name: &str) -> Client {
        Client::connect_as(self.manager.socket(), name).expect("the manager is there")
    }
}
