//! Memory of an endpoint's buffers.

use unrack_pool::wire::Access;
use unrack_pool::{Arena, Client};

/// Memory of an endpoint's buffers, by the access of peers: a segment is granted to readers or to writers.
#[derive(Clone)]
pub(crate) struct Arenas {
    read: Arena,
    write: Arena,
}

impl Arenas {
    pub(crate) fn new(pool: &Client) -> Arenas {
        Arenas { read: pool.arena(), write: pool.arena() }
    }

    /// Keeps so many bytes leased for the buffers to come.
    pub(crate) fn keep_spare(&self, bytes: u64) {
        self.read.keep_spare(bytes);
        self.write.keep_spare(bytes);
    }

    /// Returns the arena of buffers that peers access so.
    pub(crate) fn of(&self, access: Access) -> &Arena {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}
