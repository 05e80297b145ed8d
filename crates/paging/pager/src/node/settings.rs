//! Parameters of a session, and the limits that a node states.

use super::address::Address;
use core::sync::atomic::AtomicU64;
use unrack_wire::{MOST_IDS, MOST_PAGES, PATIENCE, Welcome};

/// Address of a node, and parameters of the session.
#[derive(Debug, Clone)]
pub struct Settings {
    pub address: Address,
    /// Pages that the node must reserve for this process, or refuse it; 0: none.
    pub reserve_pages: u64,
    /// Longest time in ns that connecting and greeting may take, without the time in which this process is
    /// stopped.
    pub timeout_ns: u64,
    /// Counter to which the time waited so far is added, in ns.
    pub waited_ns: Option<&'static AtomicU64>,
    /// Longest time in ns that the node may owe an answer and be silent, before the session ends.
    pub patience_ns: u64,
    pub tuning: Tuning,
}

impl Settings {
    /// Makes settings with the usual times and tuning.
    pub fn new(address: Address) -> Settings {
        let (timeout_ns, patience_ns, tuning) =
            (5_000_000_000, PATIENCE.as_nanos() as u64, Tuning::default());
        Settings { address, reserve_pages: 0, timeout_ns, waited_ns: None, patience_ns, tuning }
    }
}

/// Parameters of a session's queues.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Number of queued stores at which they are sent without a flush.
    pub batch: usize,
    /// Most pages that one message carries; the node has a limit too.
    pub merge: usize,
    /// Most pages of stores, and of loads, under way at once: a load may have to wait for these.
    pub window: usize,
    /// Most stores, and loads, that may be queued.
    pub queue: usize,
    /// True to compare every loaded page with the one stored, by rapidhash.
    pub checksums: bool,
    /// Number of ids, counted from 0; the node's limit too.
    pub most_ids: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { batch: 32, merge: 32, window: 64, queue: 1024, checksums: true, most_ids: MOST_IDS }
    }
}

impl Tuning {
    /// Returns the tuning within sensible bounds, and within the node's limits.
    pub(super) fn within(self, welcome: &Welcome) -> Tuning {
        let most = welcome.most_pages.min(MOST_PAGES) as usize;
        Tuning {
            batch: self.batch.max(1),
            merge: self.merge.clamp(1, most),
            window: self.window.max(1),
            queue: self.queue.clamp(1, u16::MAX as usize),
            most_ids: self.most_ids.min(welcome.most_ids),
            ..self
        }
    }
}

/// Pages that a node has, and most pages that one client may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeLimits {
    pub capacity: u64,
    pub share: u64,
}

impl NodeLimits {
    /// Takes the limits from a node's greeting.
    pub(super) fn new(welcome: &Welcome) -> NodeLimits {
        NodeLimits { capacity: welcome.capacity, share: welcome.share }
    }
}
