//! Memory of an endpoint's buffers.

use unrack_pool::wire::Access;
use unrack_pool::{Arena, Client};

/// Memory of an endpoint's buffers, in one arena for readers and one for writers, because a segment is granted either
/// for reading or for writing.
#[derive(Clone)]
pub(crate) struct Arenas {
    read: Arena,
    write: Arena,
}

impl Arenas {
    pub(crate) fn new(pool: &Client) -> Arenas {
        Arenas { read: pool.arena(), write: pool.arena() }
    }

    /// Keeps up to this many bytes of each arena leased for later buffers.
    pub(crate) fn keep_spare(&self, bytes: u64) {
        self.read.keep_spare(bytes);
        self.write.keep_spare(bytes);
    }

    /// Returns the arena of the buffers to which peers have this access.
    pub(crate) fn of(&self, access: Access) -> &Arena {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}
